/**
 * Decodes a token before any key is used (RFC 7515, section 7.1). The result is untrusted, and serves only to select
 * the keys to try.
 */
import { undecodable } from './errors.ts'
import { parseExactly } from './exact-json.ts'

/** By default, Node accepts about 16 KiB of headers. Longer tokens are not parsed, even if that limit is raised. */
const longestToken = 65_536

export type Token = {
  readonly text: string
  readonly algorithm: string
  readonly keyId: string | undefined
}

const base64url = /^[A-Za-z0-9_-]*$/
const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Splits a token.
 * @throws AuthenticationError if the token is not three parts of base64url, or if its header is not the header of a
 *   signed token
 */
export function parseToken(text: string): Token {
  if (text === '') throw undecodable({ kind: 'empty' })
  if (text.length > longestToken) throw undecodable({ kind: 'malformed' })
  const parts = text.split('.')
  const [header, payload, signature] = parts
  if (header === undefined || payload === undefined || signature === undefined || parts.length !== 3)
    throw undecodable({ kind: 'parts', count: parts.length })
  if (![header, payload, signature].every(isBase64url)) throw undecodable({ kind: 'malformed' })
  return { text, ...readHeader(header) }
}

/** A text of 4n + 1 characters would end in half a byte. */
function isBase64url(part: string): boolean {
  return base64url.test(part) && part.length % 4 !== 1
}

function readHeader(header: string): { algorithm: string; keyId: string | undefined } {
  const { alg, kid, b64 } = parseHeader(header)
  if (alg === 'none') throw undecodable({ kind: 'unsecured' })
  // Tokens must not have an unencoded payload (RFC 7797, section 7).
  if (typeof alg !== 'string' || b64 !== undefined) throw undecodable({ kind: 'malformed' })
  if (kid === undefined || kid === null) return { algorithm: alg, keyId: undefined }
  if (typeof kid !== 'string') throw undecodable({ kind: 'malformed' })
  return { algorithm: alg, keyId: kid }
}

function parseHeader(header: string): Record<string, unknown> {
  try {
    const parsed: unknown = parseExactly(utf8.decode(Buffer.from(header, 'base64url')))
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return { ...parsed }
  } catch {
    // The text is neither UTF-8 nor JSON. The code below refuses it like JSON that is not an object.
  }
  throw undecodable({ kind: 'malformed' })
}
