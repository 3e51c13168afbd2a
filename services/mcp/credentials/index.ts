/**
 * Authenticates callers by API tokens and by session tokens of users. Token and user files may change at any time.
 * Changes apply within about a tenth of a second. An invalid file changes nothing. Sessions continue in both cases.
 */
import type { Logger } from 'pino'
import { wellFormedBearerToken } from '../../authentication/bearer.ts'
import { limitFailedAttempts } from '../../authentication/failed-attempts.ts'
import { scopes } from '../../mcp-protocol/scopes.ts'
import type { HttpSettings } from '../configuration/types.ts'
import type { Caller } from '../core/caller.ts'
import { Accounts, type Logins } from './accounts.ts'
import { CredentialError } from './errors.ts'
import { type TokenEntry, tokenForm, type UserEntry, userForm } from './files.ts'
import { type LiveFile, openLiveFile } from './live-file.ts'
import { createSessions, type Session } from './sessions.ts'
import { indexTokens, withoutExpired } from './tokens.ts'
import type { Authenticated, Authentication } from './types.ts'

export type RunningAuthentication = Authentication & Logins & { stop(): Promise<void> }

type Options = {
  readonly settings: HttpSettings['authentication']
  readonly logger: Logger
  readonly now?: () => number
  /** Makes the session token that a user receives. */
  readonly nameOf?: ((random: string) => string) | undefined
}

const cleaningMs = 300_000
/**
 * Wrong tokens allowed per wrong login. A client with an expired token retries often, and must receive a 401 so that it
 * learns of the expiry. A client cannot guess a token of 256 bits with these attempts.
 */
const wrongTokensForEachLogin = 100
const mostWrongTokens = 10_000

/**
 * The user's current rights. If the user is no longer in the file, the rights at login: editing the file ends no
 * session.
 */
const callerOf = ({ id, username, user }: Session, now: UserEntry | undefined): Caller => ({
  kind: 'user',
  principal: `user:${username}`,
  username,
  databases: (now ?? user).available_databases,
  scopes: new Set(scopes),
  session: `user:${id}`,
})

/** @throws CredentialError if a file is invalid */
export async function createAuthentication({
  settings,
  logger,
  now = Date.now,
  nameOf,
}: Options): Promise<RunningAuthentication> {
  const rule = { windowMs: settings.rateLimitWindowMinutes * 60_000, most: settings.rateLimitMaximumAttempts }
  const sessions = createSessions(now, nameOf)
  // Wrong tokens are counted separately from wrong passwords, so that a client whose session has ended can still log
  // in.
  const wrongTokens = limitFailedAttempts(
    { ...rule, most: Math.min(mostWrongTokens, rule.most * wrongTokensForEachLogin) },
    now,
  )
  let find = indexTokens(new Map())
  let callers = new WeakMap<Session, Caller>()
  const tokens = await openLiveFile<TokenEntry>({
    form: tokenForm,
    path: settings.tokenFile,
    logger,
    onChange: entries => {
      find = indexTokens(entries)
    },
  })
  find = indexTokens(tokens.entries())
  const accounts = new Accounts({
    users: (): LiveFile<UserEntry> => users,
    failures: limitFailedAttempts(rule, now),
    sessions,
    mostFailures: settings.maximumFailedAttemptsBeforeLockout,
    logger,
  })
  const users = await openLiveFile<UserEntry>({
    form: userForm,
    path: settings.userFile,
    logger,
    onChange: () => {
      callers = new WeakMap()
      accounts.fileHasChanged()
    },
  }).catch(async (error: unknown) => {
    await tokens.stop()
    throw error
  })

  async function clean(): Promise<void> {
    const before = tokens.entries()
    const expired = before.size - withoutExpired(before, now()).size
    if (expired === 0) return
    try {
      await tokens.change(entries => withoutExpired(entries, now()))
      logger.info({ expired }, '[AUTH] expired tokens have been removed')
    } catch (error) {
      // Expired tokens are refused even if they remain in the file.
      if (!(error instanceof CredentialError)) throw error
      logger.warn(`[AUTH] expired tokens remain in the file: ${error.message}`)
    }
  }
  await clean()
  const cleaning = setInterval(() => void clean(), cleaningMs)
  cleaning.unref()

  function callerOfSession(token: string): Caller | undefined {
    const session = sessions.find(token)
    if (session === undefined) return undefined
    const known = callers.get(session)
    if (known !== undefined) return known
    const caller = callerOf(session, users.entries().get(session.username))
    callers.set(session, caller)
    return caller
  }

  function refuse(address: string): Authenticated {
    const attempt = wrongTokens.begin(address)
    if (attempt.kind === 'limited') return attempt
    return { kind: 'refused', isMissing: false }
  }

  return {
    login: (username, password, address) => accounts.login(username, password, address),
    authenticate: async (authorization, address) => {
      if (authorization === undefined) return { kind: 'refused', isMissing: true }
      const token = wellFormedBearerToken(authorization)
      if (token === undefined) return refuse(address)
      const caller = find(token, now()) ?? callerOfSession(token)
      return caller === undefined ? refuse(address) : { kind: 'caller', caller }
    },
    stop: async () => {
      clearInterval(cleaning)
      await accounts.idle()
      await Promise.all([tokens.stop(), users.stop()])
    },
  }
}
