/**
 * Rejects keys with a backslash before JSON.parse. V8 13.6 can confuse an escaped key with a key that contains a
 * backslash, if an earlier object had the same keys with the backslash. So one tenant's body, or an unauthenticated
 * client's token, could change the claims that the API reads from another token. No key of the API contains a
 * backslash.
 */

const strings = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"([\t\n\r ]*:)?/g
const backslash = /\\(?:\\|u005c)/i

/** Whether a JSON text has a key with a backslash. */
export function hasBackslashKey(text: string): boolean {
  if (!backslash.test(text)) return false
  for (const [string, colon] of text.matchAll(strings)) if (colon !== undefined && backslash.test(string)) return true
  return false
}
