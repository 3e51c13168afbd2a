/**
 * Creates the first tokens and users of a new installation from the environment, as other container images do:
 * `INIT_TOKENS=token,...` and `INIT_USERS=name:password,...`. Creates missing files and never changes existing files.
 */
import type { Logger } from 'pino'
import { isBearerToken } from '../../authentication/bearer.ts'
import { hashPassword, isAcceptable, passwordRule } from '../../authentication/password.ts'
import { CredentialError } from './errors.ts'
import { type TokenEntry, tokenForm, type UserEntry, userForm } from './files.ts'
import { digestOf } from './secrets.ts'
import { changeEntries, readText } from './write.ts'

type Options = {
  readonly tokenFile: string
  readonly userFile: string
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly logger: Logger
  readonly now: number
}

const listOf = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map(one => one.trim())
    .filter(one => one !== '')

/** Shorter tokens can be guessed if they are words. */
const shortToken = 32
const longestToken = 512

function tokenEntries(tokens: readonly string[], { logger, now }: Options): Map<string, TokenEntry> {
  return new Map(
    tokens.map((token, index) => {
      if (!isBearerToken(token) || token.length > longestToken)
        throw new CredentialError(`INIT_TOKENS: token ${index + 1} must be letters, digits and - . _ ~ + /`)
      if (token.length < shortToken)
        logger.warn(`[AUTH] INIT_TOKENS: token ${index + 1} is short, so it could be guessed`)
      const entry = { hash: digestOf(token), expires_at: null, created_at: new Date(now).toISOString() }
      return [`initial-${index + 1}`, { ...entry, annotation: 'from INIT_TOKENS' }]
    }),
  )
}

async function userEntries(users: readonly string[], { now }: Options): Promise<Map<string, UserEntry>> {
  const entries = new Map<string, UserEntry>()
  for (const [index, user] of users.entries()) {
    const colon = user.indexOf(':')
    const name = user.slice(0, Math.max(0, colon))
    const password = user.slice(colon + 1)
    const where = `INIT_USERS: user ${index + 1}`
    if (colon < 1) throw new CredentialError(`${where} must be name:password`)
    if (!userForm.name.test(name)) throw new CredentialError(`${where}: the name ${userForm.nameRule}`)
    if (!isAcceptable(password)) throw new CredentialError(`${where}: the password ${passwordRule}`)
    if (entries.has(name)) throw new CredentialError(`${where}: the name is duplicated`)
    const made = { enabled: true, failed_attempts: 0, created_at: new Date(now).toISOString() }
    entries.set(name, { password_hash: await hashPassword(password), ...made, annotation: 'from INIT_USERS' })
  }
  return entries
}

/** Must run before the server opens the files. @throws CredentialError */
export async function initialiseCredentials(options: Options): Promise<void> {
  const { tokenFile, userFile, environment, logger } = options
  const tokens = listOf(environment.INIT_TOKENS)
  if (tokens.length > 0 && (await readText(tokenFile)) === undefined) {
    const entries = tokenEntries(tokens, options)
    await changeEntries(tokenForm, tokenFile, before => (before.size === 0 ? entries : before))
    logger.info(`[AUTH] ${tokenFile} has been created from INIT_TOKENS`)
  }
  const users = listOf(environment.INIT_USERS)
  if (users.length > 0 && (await readText(userFile)) === undefined) {
    const entries = await userEntries(users, options)
    await changeEntries(userForm, userFile, before => (before.size === 0 ? entries : before))
    logger.info(`[AUTH] ${userFile} has been created from INIT_USERS`)
  }
}
