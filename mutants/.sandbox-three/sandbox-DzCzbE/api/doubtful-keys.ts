/**
 * Keys that must not come before JSON.parse: V8 13.6 takes a key that is written with an escape for one that has a backslash
 * in it, if it has seen that one before in an object with the same keys. So a tenant's body, or a stranger's token, could
 * have a claim of somebody else's token read under another name. No key of ours has a backslash.
 */
// @ts-nocheck


const strings = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"([\t\n\r ]*:)?/g
const backslash = /\\(?:\\|u005c)/i

/** Whether a text of JSON has a key with a backslash. */
export function hasDoubtfulKey(text: string): boolean {
  if (!backslash.test(text)) return false
  for (const [string, colon] of text.matchAll(strings)) if (colon !== undefined && backslash.test(string)) return true
  return false
}
