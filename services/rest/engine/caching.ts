/**
 * What caches are told of an answer: which headers of a request it depends on, and, where that is configured, a tag made of all that it says. Who sends that tag back is told that
 * nothing has changed, in place of the answer (RFC 9110 section 13.1.2). Pure.
 */
import { createHash } from 'node:crypto'
import { namesWeakly, readEntityTags } from '../../../values/entity-tags.ts'
import type { HeaderList } from '../../http/headers.ts'
import type { HttpResponse, RequestHead } from '../../http/message.ts'
import type { State } from './state.ts'

const said = ['content-type', 'content-range', 'content-profile']

function tagOf({ status, headers, body = '' }: HttpResponse): string {
  const hash = createHash('sha256').update(`${status}\n`)
  for (const [name, value] of headers) if (said.includes(name.toLowerCase())) hash.update(`${value}\n`)
  return `"${hash.update(body).digest('base64url').slice(0, 27)}"`
}

/** A list that cannot be read names nothing. */
function names(list: string, tag: string): boolean {
  const tags = readEntityTags(list)
  return tags !== undefined && namesWeakly(tags, tag)
}

/** With its tag, or, where the client has it, 304 without what describes a body. A tag that a function has set is the one that counts. */
export function tagged(answer: HttpResponse, ifNoneMatch: string | undefined): HttpResponse {
  if (answer.body === undefined || (answer.status !== 200 && answer.status !== 206)) return answer
  const own = answer.headers.find(([name]) => name.toLowerCase() === 'etag')?.[1]
  const tag = own ?? tagOf(answer)
  const headers = own === undefined ? [...answer.headers, ['ETag', tag] as const] : answer.headers
  if (ifNoneMatch === undefined || !names(ifNoneMatch, tag)) return { ...answer, headers }
  const kept = headers.filter(([name]) => !/^content-(?!location)/i.test(name))
  return { status: 304, headers: kept, body: undefined }
}

/**
 * RFC 9111 (section 3.5) keeps what comes with a token out of shared caches. It does not keep what came without one, or with another's in the same browser, from who sends one.
 */
const deciding = 'Accept, Authorization, Prefer, Range'

type Caching = { readonly configuration: Pick<State['configuration'], 'serverEtagEnabled' | 'dbSchemas'> }

/** A tag is of all bytes: nothing goes out before them. */
export const isTagged = ({ configuration }: Caching, { method }: RequestHead): boolean =>
  configuration.serverEtagEnabled && method === 'GET'

export function forCaches(state: Caching, http: RequestHead, answer: HttpResponse): HttpResponse {
  if (http.method !== 'GET' && http.method !== 'HEAD') return answer
  const isSaid = answer.headers.some(([name]) => name.toLowerCase() === 'vary')
  const schemas = state.configuration.dbSchemas.length > 1 ? ', Accept-Profile' : ''
  const varies: HeaderList = isSaid ? [] : [['Vary', `${deciding}${schemas}`]]
  const whole = { ...answer, headers: [...answer.headers, ...varies] }
  return isTagged(state, http) ? tagged(whole, http.headers['if-none-match']) : whole
}
