/**
 * Caching headers: Vary and, if configured, the full response's ETag. A client that sends the current ETag gets 304
 * instead of the response (RFC 9110, section 13.1.2). Pure.
 */
import { createHash } from 'node:crypto'
import { namesWeakly, readEntityTags } from '../../../values/entity-tags.ts'
import type { HeaderList } from '../../http/headers.ts'
import type { HttpResponse, RequestHead } from '../../http/message.ts'
import type { State } from './state.ts'

const contentHeaders = ['content-type', 'content-range', 'content-profile']

function tagOf({ status, headers, body = '' }: HttpResponse): string {
  const hash = createHash('sha256').update(`${status}\n`)
  for (const [name, value] of headers) if (contentHeaders.includes(name.toLowerCase())) hash.update(`${value}\n`)
  return `"${hash.update(body).digest('base64url').slice(0, 27)}"`
}

/** A list that cannot be parsed contains no ETags. */
function names(list: string, tag: string): boolean {
  const tags = readEntityTags(list)
  return tags !== undefined && namesWeakly(tags, tag)
}

/**
 * Returns the response with its ETag. If the client sent this ETag, returns 304 without the headers that describe a
 * body. An ETag that a function set takes precedence.
 */
export function tagged(answer: HttpResponse, ifNoneMatch: string | undefined): HttpResponse {
  if (answer.body === undefined || (answer.status !== 200 && answer.status !== 206)) return answer
  const own = answer.headers.find(([name]) => name.toLowerCase() === 'etag')?.[1]
  const tag = own ?? tagOf(answer)
  const headers = own === undefined ? [...answer.headers, ['ETag', tag] as const] : answer.headers
  if (ifNoneMatch === undefined || !names(ifNoneMatch, tag)) return { ...answer, headers }
  const remaining = headers.filter(([name]) => !/^content-(?!location)/i.test(name))
  return { status: 304, headers: remaining, body: undefined }
}

/**
 * RFC 9111 (section 3.5) keeps responses to requests with a token out of shared caches. It does not cover a browser's
 * cache: the browser could reuse a response for a request without a token, or with another token.
 */
const deciding = 'Accept, Authorization, Prefer, Range'

type Caching = { readonly configuration: Pick<State['configuration'], 'serverEtagEnabled' | 'dbSchemas'> }

/** An ETag covers all bytes, so the service sends no bytes before the response is complete. */
export const isTagged = ({ configuration }: Caching, { method }: RequestHead): boolean =>
  configuration.serverEtagEnabled && method === 'GET'

export function forCaches(state: Caching, http: RequestHead, answer: HttpResponse): HttpResponse {
  if (http.method !== 'GET' && http.method !== 'HEAD') return answer
  const hasVary = answer.headers.some(([name]) => name.toLowerCase() === 'vary')
  const schemas = state.configuration.dbSchemas.length > 1 ? ', Accept-Profile' : ''
  const varies: HeaderList = hasVary ? [] : [['Vary', `${deciding}${schemas}`]]
  const complete = { ...answer, headers: [...answer.headers, ...varies] }
  return isTagged(state, http) ? tagged(complete, http.headers['if-none-match']) : complete
}
