/** Rules for secrets of a configuration; for its other texts see crds/service-rules.ts. */
import type { z } from 'zod'
import { mostInitial, type TextRule } from '../../crds/index.ts'

/** A check for `superRefine`. The text may be secret, so no message repeats it. */
export const textRule =
  (rule: TextRule) =>
  (text: string, context: z.RefinementCtx): void => {
    const message = rule(text)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  }

const hasTwice = (texts: readonly string[]): boolean => new Set(texts).size < texts.length

/** Characters allowed in an Authorization header (RFC 6750, section 2.1). */
const token = /^[A-Za-z0-9\-._~+/]{1,511}=*$/

export const tokensRule: TextRule = text => {
  // Not trimmed: a token with a space would differ from the one that was sent.
  const tokens = text.split(',')
  if (tokens.length > mostInitial.tokens) return `must contain at most ${mostInitial.tokens} tokens`
  if (!tokens.every(one => token.test(one)))
    return 'must be tokens of at most 512 letters, digits and - . _ ~ + /, separated by commas without spaces'
  return hasTwice(tokens) ? 'must not contain a token twice' : undefined
}

const username = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$/
const isPassword = (text: string): boolean => Buffer.byteLength(text) >= 8 && Buffer.byteLength(text) <= 1024

export const usersRule: TextRule = text => {
  const pairs = text.split(',')
  if (pairs.length > mostInitial.users) return `must contain at most ${mostInitial.users} users`
  const users = pairs.map(pair => /^([^:]+):(.*)$/s.exec(pair.trim()) ?? [])
  if (!users.every(([, name = '']) => username.test(name)))
    return 'must be username:password pairs separated by commas, each username of at most 128 letters, digits and . _ @ + -'
  if (!users.every(([, , password = '']) => isPassword(password))) return 'must have passwords of 8 to 1024 bytes'
  return hasTwice(users.map(([, name]) => String(name))) ? 'must not contain a username twice' : undefined
}

/** A public key used as a passphrase would allow anyone who knows it to sign tokens. */
export const jwtSecretRule: TextRule = text =>
  text.includes('-----BEGIN ') ? 'must not be a key in PEM form: use a JSON Web Key' : undefined
