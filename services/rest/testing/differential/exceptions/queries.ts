/** Exceptions of what requests read by: query strings, rows that come back, and errors. */
import type { Answer } from '../../../../testing/client.ts'
import { isReordered } from '../compare.ts'
import type { Asked } from '../request.ts'
import { codeOf, type Exception, hasParameter } from './exception.ts'

const isRefusal = ({ status }: Answer): boolean => status >= 400 && status < 500
/** How much a request says that can be wrong. */
const sayings = ({ query, headers, body }: Asked): number =>
  query.flatMap(([, value]) => value.split(',')).length + Object.keys(headers).length + (body === undefined ? 0 : 1)
/** Of one code, faults that Postgres or the planner finds may be several. */
const isSameFault = (theirs: Answer, ours: Answer): boolean =>
  codeOf(theirs) === codeOf(ours) && !/^(22|42|RST20)/.test(codeOf(ours))
const isEmptyNotFound = ({ status, text }: Answer): boolean => status === 404 && (text === '{}' || text === '')
const says = ({ query }: Asked, text: RegExp): boolean => query.some(([, value]) => text.test(value))

/** What PostgREST has changed in the versions after 12.0.2. */
const changes: readonly Exception[] = [
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
    rule: 'Statuses of errors 21, 42P17, 53400, 54',
    source: 'PostgREST 12.0.3 and 12.2, #3205, #3256, #3267, #3255',
    parts: ['status'],
    applies: ({ theirs, ours }) => codeOf(theirs) === codeOf(ours) && /^(21|42P17|53400|54|55)/.test(codeOf(ours)),
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
]

/** What the contract says, and what docs/rest.md tells users. */
const own: readonly Exception[] = [
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
]

export const ofQueries: readonly Exception[] = [...changes, ...own]
