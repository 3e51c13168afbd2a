/** Parses one request of a batch: `{"method": "POST", "path": "/books", "headers": {...}, "body": ...}`. Pure. */
import { z } from 'zod'
import type { Headers, RequestHead } from '../../http/message.ts'
import { batchEntryWrong } from '../errors/catalogue.ts'
import type { BodyForm } from '../parse/payload.ts'
import { membersOf } from './slices.ts'

/** Headers that a request of a batch may set. The batch sets authorization and all other headers. */
const ownHeaders: readonly string[] = ['accept', 'accept-profile', 'content-profile', 'content-type', 'prefer', 'range']
/** Headers that describe the batch's own body and response. */
const outerHeaders: ReadonlySet<string> = new Set([
  ...ownHeaders,
  ...['content-length', 'content-encoding', 'transfer-encoding', 'range-unit', 'if-none-match', 'if-match', 'expect'],
])

const longestPath = 16_384

const headerValue = z
  .string('must be a string')
  .max(8_192, 'must not be longer than 8192 characters')
  .regex(/^[^\p{Cc}]*$/u, 'must not have control characters')

const entry = z.strictObject(
  {
    method: z.enum(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'], 'must be GET, HEAD, POST, PATCH, PUT or DELETE'),
    path: z
      .string('must be a string')
      .max(longestPath, `must not be longer than ${longestPath} characters`)
      .regex(/^\/[\x21-\x7e]*$/, 'must begin with / and be encoded as in a URL'),
    headers: z.record(z.string(), headerValue, 'must be an object of strings').default({}),
  },
  'must be an object with method, path, headers and body',
)

export type BatchEntry = {
  readonly head: RequestHead
  /** The unchanged JSON. Undefined if there is no body. */
  readonly body: string | undefined
}

/** Other modules expect header values as Latin-1 bytes. In a batch, header values are Unicode strings. */
const asBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

const inherited = (headers: Headers): [string, string | undefined][] =>
  Object.entries(headers).filter(([name]) => !outerHeaders.has(name))

/** JSON is passed on unchanged. Other bodies arrive as a string. */
export function bodyBytes(written: string, { type }: BodyForm): Buffer {
  if (type === 'json') return Buffer.from(written)
  const text: unknown = JSON.parse(written)
  if (typeof text !== 'string') throw batchEntryWrong('body must be a string if content-type is not JSON')
  return Buffer.from(text)
}

/**
 * `written`: this request's JSON. `outer`: the batch's headers.
 * @throws RestError
 */
export function parseEntry(written: string, outer: RequestHead): BatchEntry {
  if (!written.startsWith('{')) throw batchEntryWrong('it must be an object with method, path, headers and body')
  const members = membersOf(written)
  const body = members.findLast(([name]) => name === 'body')?.[1]
  const others = members
    .filter(([name]) => name !== 'body')
    .map(([name, value]) => [name, JSON.parse(value) as unknown])
  const parsed = entry.safeParse(Object.fromEntries(others))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const where = issue?.code === 'unrecognized_keys' ? issue.keys.join(', ') : issue?.path.join('.')
    const rule = issue?.code === 'unrecognized_keys' ? 'is not allowed in a request' : issue?.message
    throw batchEntryWrong(`${where} ${rule}`)
  }
  const { method, path: target, headers } = parsed.data
  const [path = '', ...query] = target.split('?')
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), asBytes(value)] as const)
  const foreign = own.find(([name]) => !ownHeaders.includes(name))
  if (foreign !== undefined) throw batchEntryWrong(`headers.${foreign[0]} is none of ${ownHeaders.join(', ')}`)
  const isRead = method === 'GET' || method === 'HEAD'
  if (isRead && body !== undefined) throw batchEntryWrong(`body is not allowed for ${method}`)
  return {
    head: {
      method,
      path,
      query: query.join('?'),
      headers: Object.fromEntries([...inherited(outer.headers), ...own]),
      address: outer.address,
    },
    body,
  }
}
