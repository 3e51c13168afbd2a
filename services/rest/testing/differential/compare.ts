/**
 * Compares two responses to one request, and returns the parts that differ. Ignores expected differences: times, server
 * names, and HTTP framing.
 */
import type { Answer } from '../../../testing/client.ts'
import type { SentRequest } from './request.ts'
import { bodyOf } from './rows.ts'

type Part = 'status' | 'body' | 'code' | 'message' | 'details' | 'hint' | `header ${string}`
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

/** The four texts of an error, with the service's code prefix and its name for a body in statements. */
function errorOf({ status, text }: Answer): Record<string, unknown> | undefined {
  if (status < 300 || !text.startsWith('{"code":')) return undefined
  const { code, ...rest }: Record<string, unknown> = JSON.parse(text.replaceAll('pgrst_body.', 'rst_body.'))
  return { ...rest, code: String(code).replace(/^PGRST/, 'RST') }
}

const shown = (value: unknown): string | undefined =>
  value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value)

/** Each server has its own port, and its responses may contain the port. */
const withoutPort = (text: string): string => text.replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1')

export function differences(sent: SentRequest, theirs: Answer, ours: Answer): Difference[] {
  const found: Difference[] = []
  const compare = (part: Part, one: unknown, other: unknown) => {
    if (shown(one) !== shown(other)) found.push({ part, theirs: shown(one), ours: shown(other) })
  }
  compare('status', String(theirs.status), String(ours.status))
  const names = new Set([...Object.keys(theirs.headers), ...Object.keys(ours.headers)])
  for (const name of names) if (!unequal.has(name)) compare(`header ${name}`, theirs.headers[name], ours.headers[name])
  const [theirError, ourError] = [errorOf(theirs), errorOf(ours)]
  if (theirError === undefined || ourError === undefined)
    compare('body', withoutPort(bodyOf(sent, theirs)), withoutPort(bodyOf(sent, ours)))
  else
    for (const part of ['code', 'message', 'details', 'hint'] as const) compare(part, theirError[part], ourError[part])
  return found
}
