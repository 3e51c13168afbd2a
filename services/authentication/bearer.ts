/** Reads the token of an `Authorization` header (RFC 6750, section 2.1), without verification. */

const scheme = /^bearer(?:[ \t]+|$)/i
const wellFormed = /^[A-Za-z0-9._~+/-]+=*$/

/**
 * Returns the token after the scheme, which is case-insensitive. Undefined if the header is absent or has another
 * scheme. The token may be empty.
 */
export function bearerToken(authorization: string | undefined): string | undefined {
  const word = authorization === undefined ? null : scheme.exec(authorization)
  return word === null ? undefined : authorization?.slice(word[0].length).trimEnd()
}

/** Whether the text has only characters that are allowed in a bearer token. */
export const isBearerToken = (text: string): boolean => wellFormed.test(text)

/** Returns the token if its characters are allowed, or else undefined. */
export function wellFormedBearerToken(authorization: string | undefined): string | undefined {
  const token = bearerToken(authorization)
  return token !== undefined && isBearerToken(token) ? token : undefined
}
