/** Rules about headers. */
import type { SentRequest } from '../request.ts'
import { faultOf, type Rule, withHeaders } from './rule.ts'

const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, letter => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)

/** The expected Content-Location. */
function locationOf({ path, query }: SentRequest): string {
  const sorted = query
    .toSorted(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    .map(([name, text]) => `${encoded(name)}=${encoded(text)}`)
  return sorted.length === 0 ? path : `${path}?${sorted.join('&')}`
}

const exposed =
  'Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, Transfer-Encoding, Range-Unit'

export const ofHeaders: readonly Rule[] = [
  {
    rule: 'Access-Control-Allow-Origin is sent without Origin, too, and Vary names the headers that an answer depends on',
    source: ['docs/rest.md: `Access-Control-Allow-Origin: *` is also sent to requests without `Origin`. `Vary`'],
    answers: ({ sent: { method, headers }, theirs }) => {
      const isVaried =
        /^(GET|HEAD)$/.test(method) &&
        faultOf(theirs) === undefined &&
        !(theirs.status >= 300 && /^(\{\})?$/.test(theirs.text))
      const vary = isVaried ? { vary: 'Accept, Authorization, Prefer, Range, Accept-Profile' } : {}
      // A preflight request gets the same headers from both servers.
      const shown =
        method === 'OPTIONS'
          ? {}
          : { 'access-control-expose-headers': headers.Origin === undefined ? undefined : exposed }
      return [withHeaders(theirs, { ...vary, ...shown, 'access-control-allow-origin': '*' })]
    },
  },
  {
    rule: 'Locations are URL-encoded in UTF-8 and list each parameter separately',
    source: ['docs/rest.md: `Content-Location` and `Location` are percent-encoded UTF-8'],
    answers: ({ sent, theirs }) => {
      const { location, 'content-location': content } = theirs.headers
      const path = location?.split('?')[0]
      const more = {
        ...(content === undefined ? {} : { 'content-location': locationOf(sent) }),
        ...(path === undefined || decodeURIComponent(sent.path) !== path
          ? {}
          : { location: `${sent.path}${location?.slice(path.length)}` }),
      }
      const changed = withHeaders(theirs, more)
      return JSON.stringify(changed) === JSON.stringify(theirs) ? [] : [changed]
    },
  },
  {
    rule: 'An offset beyond the rows returns an error with Content-Range as its only answer header',
    source: ['docs/rest.md: An offset beyond the rows gets 416'],
    answers: ({ theirs }) =>
      theirs.status === 416 && theirs.headers['content-range'] !== undefined
        ? [
            withHeaders(theirs, {
              'content-range': theirs.headers['content-range'].replace(/^[^/]*/, '*'),
              'content-location': undefined,
              'content-profile': undefined,
              'preference-applied': undefined,
              'content-type': 'application/json; charset=utf-8',
            }),
          ]
        : [],
  },
]
