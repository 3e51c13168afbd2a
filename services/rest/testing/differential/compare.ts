/** In which parts two answers to one request differ. What has to differ is left out: times, names of the servers, and how HTTP frames a body. */
import type { Answer } from '../../../testing/client.ts'

export type Part = 'status' | 'body' | 'code' | 'message' | 'details' | 'hint' | `header ${string}`
export type Difference = { readonly part: Part; readonly theirs: string | undefined; readonly ours: string | undefined }

const unequal = new Set([
  'date',
  'server',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'proxy-status',
])

/** An error's four texts, with the prefix of its code, and of what a statement calls a body, as ours has it. */
function errorOf({ status, text }: Answer): Record<string, unknown> | undefined {
  if (status < 300 || !text.startsWith('{"code":')) return undefined
  const { code, ...rest }: Record<string, unknown> = JSON.parse(text.replaceAll('pgrst_body.', 'rst_body.'))
  return { ...rest, code: String(code).replace(/^PGRST/, 'RST') }
}

const shown = (value: unknown): string | undefined =>
  value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value)

/** Each is asked on its own port, and may tell of it. */
const withoutPort = (text: string): string => text.replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1')

/** Rows whatever their order, of a list in a list, too; and keys of objects, which we write in the order in which they are asked for. */
function unordered(value: unknown): unknown {
  if (Array.isArray(value))
    return value.map(unordered).sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, unordered(inner)]))
}

const sortedText = (value: unknown): string => JSON.stringify(unordered(value))

/** A cell of CSV as the value that it holds, whatever the order of its keys. */
function cellOf(text: string): string {
  const bare = text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text
  try {
    return sortedText(JSON.parse(bare))
  } catch {
    return bare
  }
}

/** CSV as objects: a line that is empty is one of no columns. */
function recordsOf(csv: string): Record<string, string>[] {
  const lines = [...csv.matchAll(/((?:"(?:[^"]|"")*"|[^",\n])*)(,|\n|$)/g)].reduce<string[][]>(
    (found, [, cell = '', end]) => {
      found.at(-1)?.push(cellOf(cell))
      if (end === '\n') found.push([])
      return found
    },
    [[]],
  )
  const [names = [], ...rows] = lines
  return rows.map(row => Object.fromEntries(names.map((name, index) => [name, row[index] ?? ''])))
}

export function isReordered(theirs: string, ours: string): boolean {
  try {
    return sortedText(JSON.parse(theirs)) === sortedText(JSON.parse(ours))
  } catch {
    return sortedText(recordsOf(theirs)) === sortedText(recordsOf(ours))
  }
}

export function differences(theirs: Answer, ours: Answer): Difference[] {
  const found: Difference[] = []
  const compare = (part: Part, one: unknown, other: unknown) => {
    if (shown(one) !== shown(other)) found.push({ part, theirs: shown(one), ours: shown(other) })
  }
  compare('status', String(theirs.status), String(ours.status))
  const names = new Set([...Object.keys(theirs.headers), ...Object.keys(ours.headers)])
  for (const name of names) if (!unequal.has(name)) compare(`header ${name}`, theirs.headers[name], ours.headers[name])
  const [theirError, ourError] = [errorOf(theirs), errorOf(ours)]
  if (theirError === undefined || ourError === undefined)
    compare('body', withoutPort(theirs.text), withoutPort(ours.text))
  else
    for (const part of ['code', 'message', 'details', 'hint'] as const) compare(part, theirError[part], ourError[part])
  return found
}
