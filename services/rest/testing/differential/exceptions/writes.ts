/** Exceptions of writes, functions, media types and headers. */
import type { Asked } from '../request.ts'
import { codeOf, type Exception, hasParameter } from './exception.ts'

const accepts = ({ headers }: Asked, text: RegExp): boolean => text.test(headers.Accept ?? '')
const prefers = ({ headers }: Asked, text: RegExp): boolean => text.test(headers.Prefer ?? '')
const isWrite = ({ method }: Asked): boolean => ['POST', 'PATCH', 'PUT', 'DELETE'].includes(method)

/** What PostgREST has changed in the versions after 12.0.2. */
const changes: readonly Exception[] = [
  {
    rule: 'What nothing makes is 406, not 415',
    source: 'PostgREST 12.0.3, #3224',
    parts: ['status'],
    applies: ({ theirs, ours }) => theirs.status === 415 && ours.status === 406,
  },
  {
    rule: 'limit, offset and order do not choose what is written',
    source: 'PostgREST 13, #3013',
    applies: ({ asked }) =>
      isWrite(asked) && !asked.path.startsWith('/rpc') && hasParameter(asked, /^(limit|offset|order)$/),
  },
  {
    rule: 'Errors of tokens say what is wrong in words of their own, those of claims as RST303; an empty token is one',
    source: 'PostgREST 13, #3600 and #3926',
    applies: ({ asked, ours }) => asked.headers.Authorization !== undefined && ours.status === 401,
  },
  {
    rule: 'A schema that is not served is named in the message, and those that are in the hint',
    source: 'PostgREST 14, #4089',
    parts: ['message', 'hint'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST106' && codeOf(ours) === 'RST106',
  },
  {
    rule: 'A role that is not there is 401',
    source: 'PostgREST 14, #3601',
    parts: ['status', 'header www-authenticate'],
    applies: ({ ours }) => ours.status === 401 && codeOf(ours) === '22023',
  },
  {
    rule: 'Media types are names in letters of either kind, and their parameters are read more carefully',
    source: 'PostgREST 12.2, #3478, and 12.2.9, #3498',
    applies: ({ asked }) =>
      /[A-Z]/.test(`${asked.headers.Accept ?? ''}${asked.headers['Content-Type'] ?? ''}`) ||
      accepts(asked, /charset|plan|q=/),
  },
  {
    rule: 'A handler of a relation is not asked for part of its columns; one of any element takes rows with conversions',
    source: 'PostgREST 12.0.3, #3160',
    applies: ({ asked, theirs }) => accepts(asked, /html|list/) && codeOf(theirs) === '42846',
  },
  {
    rule: 'Arguments by GET are values of their own, not texts inside of JSON',
    source: 'PostgREST 13, #2858',
    parts: ['body'],
    applies: ({ asked }) =>
      asked.path === '/rpc/echo' && (asked.method === 'GET' || /form/.test(asked.headers['Content-Type'] ?? '')),
  },
  {
    rule: 'max-affected is a preference, params=single-object is none',
    source: 'PostgREST 12.2, #2887, and 13, #3757',
    applies: ({ asked }) => prefers(asked, /max-affected|single-object/),
  },
  {
    rule: 'What cannot be parsed of a raised error is told',
    source: 'PostgREST 12.2, #3404',
    parts: ['message', 'details', 'hint'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST121' && codeOf(ours) === 'RST121',
  },
  {
    rule: 'The default of a column is used, not that of its domain',
    source: 'PostgREST 12.2.4, #3706',
    applies: ({ asked }) => prefers(asked, /missing=default/),
  },
]

/** What the contract says, and what docs/rest.md tells users. */
const own: readonly Exception[] = [
  {
    rule: '42501 without a valid token is 400, and so asks for no token',
    source: 'the contract: errors of the database',
    parts: ['status', 'header www-authenticate'],
    applies: ({ theirs, ours }) => codeOf(ours) === '42501' && theirs.status === 401 && ours.status === 400,
  },
  {
    rule: 'A body of a type that is not taken is 415 and RST107',
    source: 'the contract: own errors',
    parts: ['status', 'code', 'message'],
    applies: ({ theirs, ours }) => ours.status === 415 && codeOf(ours) === 'RST107' && codeOf(theirs) === 'RST102',
  },
  {
    rule: 'Access-Control-Allow-Origin is there for requests without Origin as well, and Vary says what the answer depends on',
    source: 'docs/rest.md: HTTP',
    parts: ['header access-control-allow-origin', 'header access-control-expose-headers', 'header vary'],
    applies: () => true,
  },
  {
    rule: 'Content-Location and Location are in UTF-8, encoded, and name each parameter',
    source: 'docs/rest.md: HTTP',
    parts: ['header content-location', 'header location'],
    applies: ({ asked }) =>
      /%/.test(asked.path) ||
      new Set(asked.query.map(([name]) => name)).size < asked.query.length ||
      /[^\x20-\x7e]/.test(JSON.stringify(asked.query)),
  },
  {
    rule: 'A value that is no object reaches a function of one unnamed parameter as it is, and no body as an empty object',
    source: 'docs/rest.md: query strings, bodies and HTTP',
    applies: ({ asked }) => /^\/rpc\/jsonb?_body/.test(asked.path) && !/^\s*[[{]/.test(asked.body ?? ''),
  },
  {
    rule: 'CSV is read by RFC 4180, and its faults are told in words of their own',
    source: 'docs/rest.md: bodies',
    applies: ({ asked }) => asked.headers['Content-Type'] === 'text/csv',
  },
  {
    rule: 'Of several faults of a write or a POST another one may be told',
    source: 'docs/rest.md: errors and names',
    applies: ({ asked, theirs, ours }) =>
      isWrite(asked) && theirs.status >= 400 && theirs.status < 500 && (ours.status < 300 || ours.status >= 400),
  },
  {
    rule: 'Retry-After stands where waiting helps',
    source: 'docs/rest.md: limits',
    parts: ['header retry-after'],
    applies: () => true,
  },
  {
    rule: 'OPTIONS names the methods of a function whatever its parameters',
    source: 'docs/rest.md: HTTP',
    applies: ({ asked }) => asked.method === 'OPTIONS' && asked.path.startsWith('/rpc'),
  },
]

export const ofWrites: readonly Exception[] = [...changes, ...own]
