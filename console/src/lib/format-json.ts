/** JSON with other spaces. Numbers stay as they are written: parsed ones could lose digits. Pure. */

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g
/** Deeper texts would be mostly spaces. */
const deepest = 64

/** `indent`: of each level; empty: all on one line. Undefined if the text is no JSON. */
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
    if (depth > deepest) return text
    if (one === ',') parts.push(line())
    if (one === ':' && indent !== '') parts.push(' ')
  }
  return parts.join('')
}
