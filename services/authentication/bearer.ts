/** What an `Authorization` header brings (RFC 6750 section 2.1). Nothing of it has been verified. */

const scheme = /^bearer(?:[ \t]+|$)/i
const wellFormed = /^[A-Za-z0-9._~+/-]+=*$/

/** Returns the token after the scheme, which counts in any case; undefined if the header is absent or of another scheme. The token may be empty. */
export function bearerToken(authorization: string | undefined): string | undefined {
  const word = authorization === undefined ? null : scheme.exec(authorization)
  return word === null ? undefined : authorization?.slice(word[0].length).trimEnd()
}

/** Whether the text consists of what a bearer token may consist of. */
export const isBearerToken = (text: string): boolean => wellFormed.test(text)

/** Returns the token if it is one by its characters, else undefined. */
export function wellFormedBearerToken(authorization: string | undefined): string | undefined {
  const token = bearerToken(authorization)
  return token !== undefined && isBearerToken(token) ? token : undefined
}
