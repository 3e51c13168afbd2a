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

/** An error's four texts, with the prefix of its code as ours has it. */
function errorOf({ status, text }: Answer): Record<string, unknown> | undefined {
  if (status < 300 || !text.startsWith('{"code":')) return undefined
  const { code, ...rest }: Record<string, unknown> = JSON.parse(text)
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

export function isReordered(theirs: string, ours: string): boolean {
  try {
    return JSON.stringify(unordered(JSON.parse(theirs))) === JSON.stringify(unordered(JSON.parse(ours)))
  } catch {
    const lines = (text: string) => text.split('\n').sort().join('\n')
    return lines(theirs) === lines(ours)
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
