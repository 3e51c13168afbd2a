/** Formats JSON text. Numbers are copied as text, because parsed numbers can lose digits. Pure. */

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g
/** The maximum depth of indented JSON. Deeper JSON would consist mostly of spaces. */
const deepest = 64

/**
 * Formats JSON. Returns undefined if the text is not JSON. With an indent, returns the text unchanged if it is nested
 * too deeply.
 * @param indent the spaces of one level; an empty string writes the JSON on one line
 */
export function formatJson(text: string, indent: string): string | undefined {
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  const tokens = text.match(token) ?? []
  const parts: string[] = []
  let depth = 0
  const line = () => (indent === '' ? '' : `\n${indent.repeat(depth)}`)
  for (const [index, one] of tokens.entries()) {
    const isEmpty = index > 0 && /^[[{]$/.test(tokens[index - 1] ?? '')
    if (one === '}' || one === ']') {
      depth--
      parts.push(isEmpty ? one : `${line()}${one}`)
      continue
    }
    if (isEmpty) parts.push(line())
    parts.push(one)
    if (one === '{' || one === '[') depth++
    if (depth > deepest && indent !== '') return text
    if (one === ',') parts.push(line())
    if (one === ':' && indent !== '') parts.push(' ')
  }
  return parts.join('')
}
