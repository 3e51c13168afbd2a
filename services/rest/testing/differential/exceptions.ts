/**
 * Where our answers may differ from those of PostgREST 12.0.2, and why: what PostgREST has changed itself up to 14, and what our contract says otherwise. Everything
 * else in which they differ is a fault of ours.
 */
import type { Answer } from '../../../testing/client.ts'
import { type Difference, differences, isReordered, type Part } from './compare.ts'
import type { Asked } from './request.ts'

type Facts = { readonly asked: Asked; readonly theirs: Answer; readonly ours: Answer }

type Exception = {
  /** What holds for ours. */
  readonly rule: string
  /** Release notes of PostgREST with the number of the change, the contract, or the documentation that tells users. */
  readonly source: string
  /** Parts that may differ; all where it is not given. */
  readonly parts?: readonly Part[]
  readonly applies: (facts: Facts) => boolean
}

const codeOf = ({ text }: Answer): string => /^\{"code":"(?:PG)?([^"]*)"/.exec(text)?.[1] ?? ''
const isRefusal = ({ status }: Answer): boolean => status >= 400 && status < 500
/** How much a request says that can be wrong. */
const sayings = ({ query, headers, body }: Asked): number =>
  query.flatMap(([, value]) => value.split(',')).length + Object.keys(headers).length + (body === undefined ? 0 : 1)
/** Of one code, faults that Postgres or the planner finds may be several. */
const isSameFault = (theirs: Answer, ours: Answer): boolean =>
  codeOf(theirs) === codeOf(ours) && !/^(22|42|RST20)/.test(codeOf(ours))
const isEmptyNotFound = ({ status, text }: Answer): boolean => status === 404 && (text === '{}' || text === '')
const hasParameter = ({ query }: Asked, name: RegExp): boolean => query.some(([key]) => name.test(key))
const says = ({ query }: Asked, text: RegExp): boolean => query.some(([, value]) => text.test(value))
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
    rule: 'A relation that is not known is RST205',
    source: 'PostgREST 13, #3697',
    applies: ({ theirs, ours }) => codeOf(ours) === 'RST205' && isRefusal(theirs),
  },
  {
    rule: 'A path that is none is RST125, with a body',
    source: 'PostgREST 13, #3906',
    applies: ({ theirs, ours }) =>
      (theirs.status === 404 && codeOf(ours) === 'RST125') || (isEmptyNotFound(theirs) && isRefusal(ours)),
  },
  {
    rule: 'Errors of tokens say what is wrong in words of their own, those of claims as RST303; an empty token is one',
    source: 'PostgREST 13, #3600 and #3926',
    applies: ({ asked, ours }) => asked.headers.Authorization !== undefined && ours.status === 401,
  },
  {
    rule: 'Another number of rows than one says so in other words',
    source: 'PostgREST 13, #3795',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST116' && codeOf(ours) === 'RST116',
  },
  {
    rule: 'is.not_null, and what else is could be followed by in other words',
    source: 'PostgREST 13, #3747',
    applies: ({ theirs }) => codeOf(theirs) === 'RST100' && theirs.text.includes('trilean'),
  },
  {
    rule: 'Full-text search makes a tsvector of what is none',
    source: 'PostgREST 13, #2255',
    applies: ({ asked }) => says(asked, /fts/),
  },
  {
    rule: 'A column that is not known is said to be so in other words',
    source: 'PostgREST 12.0.3, #3361',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST204' && codeOf(ours) === 'RST204',
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
    rule: 'Statuses of errors 21, 42P17, 53400, 54',
    source: 'PostgREST 12.0.3 and 12.2, #3205, #3256, #3267, #3255',
    parts: ['status'],
    applies: ({ theirs, ours }) => codeOf(theirs) === codeOf(ours) && /^(21|42P17|53400|54|55)/.test(codeOf(ours)),
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
    rule: 'To many can be spread',
    source: 'PostgREST 13, #3041',
    applies: ({ theirs }) => codeOf(theirs) === 'RST119',
  },
  {
    rule: 'Aggregates of spreads, and their groups',
    source: 'PostgREST 13, #3693',
    applies: ({ asked }) => says(asked, /\.\.\./) && says(asked, /\(\)/),
  },
  {
    rule: 'Embeddings without columns are left out, nested ones as well',
    source: 'PostgREST 12.2.2, #3093',
    applies: ({ asked, theirs }) =>
      says(asked, /\(\)/) && (/^42(601|703)$/.test(codeOf(theirs)) || theirs.status < 300),
  },
  {
    rule: 'What a function returns can be filtered and sorted by columns that are not selected',
    source: 'PostgREST 13, #3965',
    applies: ({ asked, theirs }) => asked.path.startsWith('/rpc') && codeOf(theirs) === '42703',
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
    rule: 'Rows for which no order is asked may come in another one',
    source: 'docs/rest.md: order of rows',
    parts: ['body'],
    applies: ({ theirs, ours }) => isReordered(theirs.text, ours.text),
  },
  {
    rule: 'A page of rows for which no order is asked may have other rows',
    source: 'docs/rest.md: order of rows',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) =>
      theirs.status === ours.status &&
      theirs.headers['content-range'] === ours.headers['content-range'] &&
      !hasParameter(asked, /^order$/) &&
      (hasParameter(asked, /(limit|offset)$/) || asked.headers.Range !== undefined),
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
    rule: 'A cast may name an array; a number past what an index can be is a key; one past 15 digits is no limit',
    source: 'docs/rest.md: query strings',
    applies: ({ asked }) => says(asked, /\[\]|[0-9]{11}/) || /[0-9]{16}/.test(asked.headers.Range ?? ''),
  },
  {
    rule: 'limit is a whole number in decimal digits, whatever else Haskell reads',
    source: 'docs/rest.md: query strings',
    applies: ({ asked }) =>
      asked.query.some(([name, value]) => /(limit|offset)$/.test(name) && !/^-?[0-9]+$/.test(value)),
  },
  {
    rule: 'A hint that guesses a misspelt name may guess another one, or none',
    source: 'docs/rest.md: errors and names',
    parts: ['hint'],
    applies: ({ theirs, ours }) => /^RST20[02]$/.test(codeOf(ours)) && codeOf(theirs) === codeOf(ours),
  },
  {
    rule: 'Of several faults another one may be told',
    source: 'docs/rest.md: errors and names',
    applies: ({ asked, theirs, ours }) =>
      isRefusal(theirs) && isRefusal(ours) && sayings(asked) > 1 && !isSameFault(theirs, ours),
  },
  {
    rule: 'HEAD is refused as GET is, which has a body to compare',
    source: 'docs/rest.md: HTTP',
    applies: ({ asked, theirs, ours }) => asked.method === 'HEAD' && (theirs.status >= 400 || ours.status >= 400),
  },
  {
    rule: 'An offset beyond the rows is answered as an error is, without the headers of an answer',
    source: 'docs/rest.md: HTTP',
    parts: [
      'header content-location',
      'header content-profile',
      'header content-range',
      'header content-type',
      'header preference-applied',
    ],
    applies: ({ theirs, ours }) => theirs.status === 416 && ours.status === 416,
  },
  {
    rule: 'A relation of a table to itself may be hinted at by its constraint, and be embedded several times',
    source: 'docs/rest.md: query strings',
    applies: ({ theirs, ours }) => ours.status < 300 && /^(RST200|42712|42803)$/.test(codeOf(theirs)),
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

const exceptions: readonly Exception[] = [...changes, ...own]

const covers = ({ parts }: Exception, part: Part): boolean => parts === undefined || parts.includes(part)

/** What in two answers nothing explains. */
export function unexplained(asked: Asked, theirs: Answer, ours: Answer): Difference[] {
  return differences(theirs, ours).filter(
    difference => !exceptions.some(one => covers(one, difference.part) && one.applies({ asked, theirs, ours })),
  )
}
