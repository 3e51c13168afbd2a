/**
 * Logins by user name and password. A client cannot distinguish a wrong name from a wrong password, not even by time.
 * Guesses are limited by address, and also by account if configured. Both limits also apply to concurrent guesses. An
 * account is disabled immediately, even if the file cannot be written.
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
  /** The user is unknown or the password is wrong. The client does not learn which. */
  | { readonly kind: 'refused' }
  | { readonly kind: 'disabled' }
  /** There were too many failures from this address. */
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }
  /** There are too many concurrent logins. */
  | { readonly kind: 'busy' }

export type Logins = {
  /** `address`: the client's address behind trusted proxies; undefined if unknown. */
  login(username: string, password: string, address: string | undefined): Promise<Login>
}

type Options = {
  readonly users: () => LiveFile<UserEntry>
  readonly failures: FailedAttempts
  readonly sessions: Sessions
  /** Failures before an account is disabled; 0: off. */
  readonly mostFailures: number
  readonly logger: Logger
}

export class Accounts implements Logins {
  readonly #options: Options
  /** Failure counts that are not in the file yet, or that cannot be written. The number of users bounds the map. */
  readonly #counted = new Map<string, number>()
  /** The number of pending writes of each user's count. */
  readonly #pending = new Map<string, number>()
  /** Users whose next write has not read the count yet. That write will use the latest count. */
  readonly #waiting = new Set<string>()
  #writing: Promise<void> = Promise.resolve()

  constructor(options: Options) {
    this.#options = options
  }

  async login(username: string, password: string, address: string | undefined): Promise<Login> {
    const { failures, logger } = this.#options
    const attempt = failures.begin(address ?? '')
    if (attempt.kind === 'limited') {
      logger.warn({ address }, '[AUTH] too many failed logins from this address')
      return attempt
    }
    try {
      const login = await this.#check(username, password)
      if (login.kind === 'session') attempt.succeeded()
      else logger.warn({ address, username: username.slice(0, 128) }, '[AUTH] a login has failed')
      return login
    } catch (error) {
      if (!(error instanceof PasswordsBusy)) throw error
      attempt.succeeded()
      return { kind: 'busy' }
    }
  }

  /** Uses the file's counts, except for users whose counts are still to be written. */
  fileHasChanged(): void {
    for (const username of this.#counted.keys()) if (!this.#pending.has(username)) this.#counted.delete(username)
  }

  /** Resolves when all counts are written. */
  idle(): Promise<void> {
    return this.#writing
  }

  async #check(username: string, password: string): Promise<Login> {
    const { users, sessions } = this.#options
    const isRight = await isPassword(password, users().entries().get(username)?.password_hash)
    // Reads the latest count, which includes concurrent guesses.
    const user = users().entries().get(username)
    if (user === undefined) return { kind: 'refused' }
    if (!user.enabled || this.#isTooMany(this.#failedOf(username, user))) return { kind: 'disabled' }
    if (!isRight) {
      this.#noteFailure(username, user)
      return { kind: 'refused' }
    }
    this.#noteSuccess(username, user)
    return { kind: 'session', ...sessions.begin(username, user) }
  }

  #failedOf(username: string, user: UserEntry): number {
    return this.#counted.get(username) ?? user.failed_attempts
  }

  #isTooMany(count: number): boolean {
    const { mostFailures } = this.#options
    return mostFailures > 0 && count >= mostFailures
  }

  #noteFailure(username: string, user: UserEntry): void {
    const { mostFailures, logger } = this.#options
    if (mostFailures === 0) return
    const count = this.#failedOf(username, user) + 1
    this.#counted.set(username, count)
    if (count === mostFailures) logger.warn(`[AUTH] the account ${username} is disabled after ${count} failed logins`)
    this.#write(username)
  }

  #noteSuccess(username: string, user: UserEntry): void {
    if (this.#failedOf(username, user) === 0) return
    this.#counted.set(username, 0)
    this.#write(username)
  }

  /** A login does not wait for the write. Otherwise, the login's time would reveal whether the user exists. */
  #write(username: string): void {
    if (this.#waiting.has(username)) return
    this.#waiting.add(username)
    this.#pending.set(username, (this.#pending.get(username) ?? 0) + 1)
    this.#writing = this.#writing.then(async () => {
      const isWritten = await this.#writeCount(username)
      const remaining = (this.#pending.get(username) ?? 1) - 1
      if (remaining > 0) this.#pending.set(username, remaining)
      else this.#pending.delete(username)
      // The file now has the count, and other writers may change it.
      if (isWritten && remaining === 0) this.#counted.delete(username)
    })
  }

  async #writeCount(username: string): Promise<boolean> {
    const { users, logger } = this.#options
    try {
      await users().change(before => {
        this.#waiting.delete(username)
        return this.#withCount(before, username)
      })
      return true
    } catch (error) {
      this.#waiting.delete(username)
      const reason = error instanceof CredentialError ? error.message : 'the user file cannot be written'
      logger.error(`[AUTH] ${reason}; failed logins are counted in memory only`)
      return false
    }
  }

  #withCount(before: ReadonlyMap<string, UserEntry>, username: string): ReadonlyMap<string, UserEntry> {
    const user = before.get(username)
    const count = this.#counted.get(username)
    if (user === undefined || count === undefined) return before
    const enabled = user.enabled && !this.#isTooMany(count)
    if (user.failed_attempts === count && user.enabled === enabled) return before
    return new Map(before).set(username, { ...user, failed_attempts: count, enabled })
  }
}
