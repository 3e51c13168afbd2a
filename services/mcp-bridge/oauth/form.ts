/** Parses OAuth forms and queries. Each field may occur only once (RFC 6749 section 3.1). Sizes are limited. */

import { HttpError } from '../../http/errors.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import { isContentType, readBody } from '../../http/read-body.ts'
import { OAuthError } from './errors.ts'

export type Fields = ReadonlyMap<string, string>

const largestBody = 65_536
const mostFields = 50

/** @throws OAuthError */
export async function readSmallBody(body: IncomingBody): Promise<string> {
  try {
    return (await readBody(body, largestBody)).toString()
  } catch (error) {
    if (!(error instanceof HttpError && error.fault.kind === 'body too large')) throw error
    throw new OAuthError('invalid_request', `the body must not be larger than ${largestBody} bytes`)
  }
}

/** Ignores empty fields. @throws OAuthError */
export function readFields(text: string): Fields {
  const fields = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (value === '') continue
    if (fields.has(name)) throw new OAuthError('invalid_request', `${name.slice(0, 50)} is duplicated`)
    if (fields.size >= mostFields) throw new OAuthError('invalid_request', `at most ${mostFields} fields are allowed`)
    fields.set(name, value)
  }
  return fields
}

/** @throws OAuthError */
export async function readForm(head: RequestHead, body: IncomingBody): Promise<Fields> {
  if (!isContentType(head.headers['content-type'], 'application/x-www-form-urlencoded'))
    throw new OAuthError('invalid_request', 'Content-Type must be application/x-www-form-urlencoded')
  return readFields(await readSmallBody(body))
}

/** @throws OAuthError */
export function required(fields: Fields, name: string): string {
  const value = fields.get(name)
  if (value === undefined) throw new OAuthError('invalid_request', `${name} is missing`)
  return value
}

export function cookieOf(head: RequestHead, name: string): string | undefined {
  for (const one of (head.headers.cookie ?? '').split(';')) {
    const [key, value] = one.trim().split('=')
    if (key === name && value !== undefined && value !== '') return value
  }
  return undefined
}

export const noStore = [
  ['Cache-Control', 'no-store'],
  ['Pragma', 'no-cache'],
] as const

export const plainJson = (
  status: number,
  value: unknown,
  headers: HttpResponse['headers'] = noStore,
): HttpResponse => ({
  status,
  headers: [['Content-Type', 'application/json'], ...headers],
  body: JSON.stringify(value),
})

export const redirectTo = (location: string, headers: HttpResponse['headers'] = []): HttpResponse => ({
  status: 303,
  headers: [['Location', location], ['Referrer-Policy', 'no-referrer'], ...noStore, ...headers],
  body: undefined,
})
