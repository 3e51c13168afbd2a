/** Parses JSON without loss: numbers keep their digits, and objects keep duplicate keys. */
export type Json = string | { readonly list: readonly Json[] } | { readonly entries: readonly Entry[] }
export type Entry = readonly [key: string, value: Json]

const token = /\s*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+)\s*/gsy

/** Undefined if the text is not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  const tokens = [...text.matchAll(token)].map(([, found = '']) => found)
  let at = 0
  const next = (): string => tokens[at++] ?? ''
  const isEnd = (): boolean => /^[}\]]$/.test(tokens[at] ?? '') && next() !== ''
  const comma = () => {
    if (tokens[at] === ',') at++
  }
  const value = (): Json => {
    const first = next()
    if (first === '[') {
      const list: Json[] = []
      for (; !isEnd(); comma()) list.push(value())
      return { list }
    }
    if (first !== '{') return first
    const entries: Entry[] = []
    for (; !isEnd(); comma()) {
      const key = next()
      next()
      entries.push([key, value()])
    }
    return { entries }
  }
  return value()
}

export const jsonText = (json: Json): string =>
  typeof json === 'string'
    ? json
    : 'list' in json
      ? `[${json.list.map(jsonText).join()}]`
      : `{${json.entries.map(([key, value]) => `${key}:${jsonText(value)}`).join()}}`
