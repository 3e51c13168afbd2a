/** Checks that every server reads a request target in the same way. `pathOf` does not decode the path. Pure. */

const visible = /^\/[\x21-\x22\x24-\x7e]*$/
const encodedSeparators = /%2e|%2f|%5c/gi
const separators: Readonly<Record<string, string>> = { '%2e': '.', '%2f': '/', '%5c': '\\' }

export const pathOf = (target: string): string => {
  const question = target.indexOf('?')
  return question === -1 ? target : target.slice(0, question)
}

/**
 * Returns false for spaces, control and non-ASCII characters, and `#`. Also returns false for backslashes, `//` and dot
 * segments in the path, plain or encoded.
 */
export function isWellFormed(target: string): boolean {
  const path = pathOf(target)
  if (!visible.test(target) || path.includes('//') || path.includes('\\')) return false
  const decoded = path.replace(encodedSeparators, code => separators[code.toLowerCase()] ?? code)
  return !decoded.split(/[/\\]/).some(segment => segment === '.' || segment === '..')
}
