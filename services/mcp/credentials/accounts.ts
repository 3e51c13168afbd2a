/**
 * Logins by user name and password. It promises that a wrong name and a wrong password cannot be told apart, by the time either; that guesses
 * are limited by address, and by account where that is configured, also when they come all at once; and that a locked account is locked
 * at once, whatever becomes of writing that to the file.
 */
import type { Logger } from 'pino'
import type { FailedAttempts } from '../../authentication/failed-attempts.ts'
import { isPassword, PasswordsBusy } from '../../authentication/password.ts'
import { CredentialError } from './errors.ts'
import type { UserEntry } from './files.ts'
import type { LiveFile } from './live-file.ts'
import type { Sessions } from './sessions.ts'

export type Login =
  | { readonly kind: 'session'; readonly token: string; readonly expiresAt: number }
  /** No such user, or another password: nobody is told which. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'disabled' }
  /** Too many failures from this address. */
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }
  /** Too many are logging in at this moment. */
  | { readonly kind: 'busy' }

export type Logins = {
  /** `address`: the client's, after trusted proxies; undefined where it has none. */
  login(username: string, password: string, address: string | undefined): Promise<Login>
}

type Options = {
  readonly users: () => LiveFile<UserEntry>
  readonly failures: FailedAttempts
  readonly sessions: Sessions
  /** 0: off. */
  readonly mostFailures: number
  readonly logger: Logger
}

type Accounts = Logins & {
  /** What the file says now counts. */
  fileHasChanged(): void
  /** Resolves once what has been counted is written. */
  settled(): Promise<void>
}

export function createAccounts({ users, failures, sessions, mostFailures, logger }: Options): Accounts {
  /** What the file does not say yet, or cannot be made to say. Only of users there are, so bounded. */
  const counted = new Map<string, number>()
  /** How many writes of a user's count are still to be done. */
  const pending = new Map<string, number>()
  /** Whose next write has not looked at the count yet: it will write what is counted by then. */
  const waiting = new Set<string>()
  let writing: Promise<void> = Promise.resolve()

  const failedOf = (username: string, user: UserEntry) => counted.get(username) ?? user.failed_attempts
  const isDisabled = (username: string, user: UserEntry) =>
    !user.enabled || (mostFailures > 0 && failedOf(username, user) >= mostFailures)

  /** Not waited for by who logs in: it would tell a user who is there from one who is not. */
  function write(username: string): void {
    if (waiting.has(username)) return
    waiting.add(username)
    pending.set(username, (pending.get(username) ?? 0) + 1)
    writing = writing.then(async () => {
      const isWritten = await writeCount(username)
      const left = (pending.get(username) ?? 1) - 1
      if (left > 0) pending.set(username, left)
      else pending.delete(username)
      // From now on the file says it, and whoever has changed it since.
      if (isWritten && left === 0) counted.delete(username)
    })
  }

  async function writeCount(username: string): Promise<boolean> {
    try {
      await users().change(before => {
        waiting.delete(username)
        return withCount(before, username)
      })
      return true
    } catch (error) {
      waiting.delete(username)
      const reason = error instanceof CredentialError ? error.message : 'the user file cannot be written'
      logger.error(`[AUTH] ${reason}; failed logins are counted in memory alone`)
      return false
    }
  }

  function withCount(before: ReadonlyMap<string, UserEntry>, username: string): ReadonlyMap<string, UserEntry> {
    const user = before.get(username)
    const count = counted.get(username)
    if (user === undefined || count === undefined) return before
    const enabled = user.enabled && !(mostFailures > 0 && count >= mostFailures)
    if (user.failed_attempts === count && user.enabled === enabled) return before
    return new Map(before).set(username, { ...user, failed_attempts: count, enabled })
  }

  function noteFailure(username: string, user: UserEntry): void {
    if (mostFailures === 0) return
    const count = failedOf(username, user) + 1
    counted.set(username, count)
    if (count === mostFailures) logger.warn(`[AUTH] the account ${username} is disabled after ${count} failed logins`)
    write(username)
  }

  function noteSuccess(username: string, user: UserEntry): void {
    if (failedOf(username, user) === 0) return
    counted.set(username, 0)
    write(username)
  }

  async function check(username: string, password: string): Promise<Login> {
    const isRight = await isPassword(password, users().entries().get(username)?.password_hash)
    // As it is by now: others may have guessed meanwhile.
    const user = users().entries().get(username)
    if (user === undefined) return { kind: 'refused' }
    if (isDisabled(username, user)) return { kind: 'disabled' }
    if (!isRight) {
      noteFailure(username, user)
      return { kind: 'refused' }
    }
    noteSuccess(username, user)
    return { kind: 'session', ...sessions.begin(username, user) }
  }

  return {
    login: async (username, password, address) => {
      const attempt = failures.begin(address ?? '')
      if (attempt.kind === 'limited') {
        logger.warn({ address }, '[AUTH] too many failed logins from this address')
        return attempt
      }
      try {
        const login = await check(username, password)
        if (login.kind === 'session') attempt.succeeded()
        else logger.warn({ address, username: username.slice(0, 128) }, '[AUTH] a login has failed')
        return login
      } catch (error) {
        if (!(error instanceof PasswordsBusy)) throw error
        attempt.succeeded()
        return { kind: 'busy' }
      }
    },
    fileHasChanged: () => {
      // What is still to be written the file cannot say.
      for (const username of counted.keys()) if (!pending.has(username)) counted.delete(username)
    },
    settled: () => writing,
  }
}
