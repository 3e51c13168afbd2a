/** What texts of a configuration must be like: each function returns the rule that a text breaks, or undefined. */
import type { z } from 'zod'
import { reservedRoles } from '../../crds/index.ts'
import { parseRolePath, RolePathError } from '../../values/role-path.ts'

type Rule = (text: string) => string | undefined

/** A check for `superRefine`. What a text holds may be secret, so that no message repeats it. */
export const textRule =
  (rule: Rule) =>
  (text: string, context: z.RefinementCtx): void => {
    const message = rule(text)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  }

const parts = (text: string): string[] => text.split(',').map(part => part.trim())

const hasTwice = (texts: readonly string[]): boolean => new Set(texts).size < texts.length

const mostTokens = 32
/** What can stand in an Authorization header (RFC 6750, section 2.1). */
const token = /^[A-Za-z0-9\-._~+/]{1,511}=*$/

export const tokensRule: Rule = text => {
  // Not trimmed: a token with a space would be another than the one that was sent.
  const tokens = text.split(',')
  if (tokens.length > mostTokens) return `must hold at most ${mostTokens} tokens`
  if (!tokens.every(one => token.test(one)))
    return 'must be tokens of at most 512 letters, digits and - . _ ~ + /, separated by commas without spaces'
  return hasTwice(tokens) ? 'must not hold a token twice' : undefined
}

const mostUsers = 100
const username = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$/
const isPassword = (text: string): boolean => Buffer.byteLength(text) >= 8 && Buffer.byteLength(text) <= 1024

export const usersRule: Rule = text => {
  const pairs = text.split(',')
  if (pairs.length > mostUsers) return `must hold at most ${mostUsers} users`
  const users = pairs.map(pair => /^([^:]+):(.*)$/s.exec(pair.trim()) ?? [])
  if (!users.every(([, name = '']) => username.test(name)))
    return 'must be username:password pairs separated by commas, each username of at most 128 letters, digits and . _ @ + -'
  if (!users.every(([, , password = '']) => isPassword(password))) return 'must have passwords of 8 to 1024 bytes'
  return hasTwice(users.map(([, name]) => String(name))) ? 'must not hold a username twice' : undefined
}

const longestName = 63

/** What Postgres keeps for itself. */
const isReservedSchema = (name: string): boolean => name.startsWith('pg_') || name === 'information_schema'

export const schemasRule: Rule = text => {
  const names = parts(text)
  if (names.includes('')) return 'must be names of schemas separated by commas, none of them empty'
  if (names.some(name => name.includes('\0') || Buffer.byteLength(name) > longestName))
    return `must hold names of at most ${longestName} bytes`
  if (hasTwice(names)) return 'must not name a schema twice'
  const reserved = names.find(isReservedSchema)
  return reserved === undefined ? undefined : `must not name ${reserved}, which is Postgres's own`
}

export const anonymousRoleRule: Rule = name =>
  reservedRoles.some(reserved => reserved === name) || name.startsWith('pg_') || name.startsWith('espalier_')
    ? `must be a role of your own: it must not be pg_*, espalier_* or one of ${reservedRoles.join(', ')}`
    : undefined

const origin = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#,@*]+$/i

export const originRule: Rule = text =>
  text === '*' || origin.test(text) ? undefined : 'must be an origin, for example https://app.example.com, or *'

export const originsRule: Rule = text =>
  parts(text).every(one => originRule(one) === undefined)
    ? undefined
    : 'must be origins separated by commas, for example https://app.example.com, or *'

/** The path to the claim that names the role, as `rest` reads it. */
export const claimPathRule: Rule = text => {
  try {
    parseRolePath(text)
    return undefined
  } catch (error) {
    if (error instanceof RolePathError) return error.message
    throw error
  }
}

/** A public key used as a passphrase would let anyone who knows it sign tokens. */
export const jwtSecretRule: Rule = text =>
  text.includes('-----BEGIN ') ? 'must not be a key in PEM form: give it as a JSON Web Key' : undefined
