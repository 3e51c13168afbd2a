/** Exceptions of what requests read by: what of query strings, rows and errors PostgREST has changed itself. */
import type { Answer } from '../../../../testing/client.ts'
import { isSameBody } from '../compare.ts'
import type { Asked } from '../request.ts'
import { aggregate, isAnswered, isOfDatabase, isSane, names, ofServer, says, tells, withoutHidden } from './answers.ts'
import { codeOf, type Exception } from './exception.ts'

/** The same in another embedding. */
const nestedEmpty = /\((.*[,(:.])?(?!count\()[^.,():]+\(\)/
/** Of CSV; a list inside of one breaks lines, too. */
const recordsIn = ({ text }: Answer): number => text.replaceAll(', \n ', ', ').split('\n').length
const isEmptyNotFound = ({ status, text }: Answer): boolean => status === 404 && (text === '{}' || text === '')
/** An embedding without columns. */
const empty = /(^|[,(:.])(?!count\()[^.,():]+\(\)/
/** Without embedded rows that have no columns, which were shown as objects without keys; in CSV, too. */
function withoutEmptyRows(text: string): string {
  const nothing = /"(?:[^"\\]|\\.)*": ?(?:\{\s*\}|null|\[[\s{},]*\])(?:, ?)?|^"?(?:\{\s*\}|\[[\s{},]*\])"?(?=\n|$)/gmu
  const shorter = text.replaceAll(nothing, '').replaceAll(/, ?\}/g, '}')
  return shorter === text ? text : withoutEmptyRows(shorter)
}
function isSameWithoutEmptyRows(asked: Asked, theirs: Answer, ours: Answer): boolean {
  const plain = (answer: Answer) => ({ ...answer, text: withoutEmptyRows(withoutHidden(asked, answer.text)) })
  return isSameBody(asked, plain(theirs), plain(ours))
}

/** What PostgREST has changed in the versions after 12.0.2. */
export const changesOfQueries: readonly Exception[] = [
  {
    rule: 'A relation that is not known is RST205, and looked for before anything else that is planned',
    source: 'PostgREST 13, #3697',
    applies: ({ theirs, ours }) =>
      codeOf(ours) === 'RST205' &&
      (isOfDatabase(theirs) ||
        isEmptyNotFound(theirs) ||
        /^RST(107|108|116|118|119|122|123|20[0-4])$/.test(codeOf(theirs))),
  },
  {
    rule: 'A path that is none is RST125, with a body',
    source: 'PostgREST 13, #3906',
    parts: ['body'],
    applies: ({ theirs, ours }) => isEmptyNotFound(theirs) && codeOf(ours) === 'RST125',
  },
  {
    rule: 'The schema is looked at before the query string',
    source: 'PostgREST 12.2, #3440',
    applies: ({ theirs, ours }) => codeOf(ours) === 'RST106' && /^RST10[01]$/.test(codeOf(theirs)),
  },
  {
    rule: 'Another number of rows than one says so in other words',
    source: 'PostgREST 13, #3795',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST116' && codeOf(ours) === 'RST116',
  },
  {
    rule: 'What is can be followed by, in other words',
    source: 'PostgREST 13, #3747',
    parts: ['details'],
    applies: ({ theirs, ours }) =>
      codeOf(ours) === 'RST100' && tells(theirs, /expecting null or trilean value \(unknown, true, false\)/),
  },
  {
    rule: 'is.not_null',
    source: 'PostgREST 13, #3747',
    applies: ({ asked, theirs, ours }) =>
      says(asked, /is\.n[ot_nul]+/i) &&
      codeOf(theirs) === 'RST100' &&
      tells(theirs, /unexpected "[oO]" expecting null or trilean|failed to parse logic tree/) &&
      isSane(ours),
  },
  {
    rule: 'Full-text search makes a tsvector of what is none',
    source: 'PostgREST 13, #2255',
    applies: ({ asked, theirs, ours }) =>
      says(asked, /fts/) && codeOf(theirs) === '42883' && tells(theirs, /@@ tsquery"/) && isSane(ours),
  },
  {
    rule: 'Full-text search in a language makes a tsvector of a text in that language',
    source: 'PostgREST 13, #2255',
    parts: ['status', 'body', 'header content-range'],
    applies: ({ asked, theirs, ours }) => says(asked, /fts\(/) && isAnswered(theirs) && isAnswered(ours),
  },
  {
    rule: 'A column that is not known is said to be so in other words',
    source: 'PostgREST 12.0.3, #3361',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === 'RST204' && codeOf(ours) === 'RST204',
  },
  {
    rule: 'Errors 21, 42P17, 53400, 54 and 55 are the server’s',
    source: 'PostgREST 12.0.3 and 12.2, #3205, #3256, #3267, #3255',
    parts: ['status'],
    applies: ({ theirs, ours }) =>
      codeOf(theirs) === codeOf(ours) && ours.status === 500 && ofServer.test(codeOf(ours)),
  },
  {
    rule: 'To many can be spread',
    source: 'PostgREST 13, #3041',
    applies: ({ asked, theirs, ours }) => says(asked, /\.\.\./) && codeOf(theirs) === 'RST119' && isSane(ours),
  },
  {
    rule: 'Aggregates of spreads in spreads, and orders beside them',
    source: 'PostgREST 13, #3693',
    applies: ({ asked, theirs, ours }) =>
      says(asked, /\.\.\./) &&
      says(asked, aggregate) &&
      /^42(702|703|803)$/.test(codeOf(theirs)) &&
      tells(theirs, /column "?\w+_\d+\.|column reference "[^"]+" is ambiguous/) &&
      isSane(ours),
  },
  {
    rule: 'Embeddings without columns are left out, nested ones as well',
    source: 'PostgREST 12.2.2, #3093',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) => says(asked, empty) && isSameWithoutEmptyRows(asked, theirs, ours),
  },
  {
    rule: 'Embeddings without columns that are nested, in a spread or beside an aggregate break no statement',
    source: 'PostgREST 12.2.2, #3093',
    applies: ({ asked, theirs, ours }) =>
      says(asked, empty) &&
      /^42(601|702|703|803|809|846)$/.test(codeOf(theirs)) &&
      tells(
        theirs,
        /syntax error at or near|column .+ does not exist|cannot cast type record to|is ambiguous|ordered-set aggregate rank|column "\w+_\d+\.\w+" must appear/,
      ) &&
      isSane(ours),
  },
  {
    rule: 'Embeddings without columns make no groups',
    source: 'PostgREST 12.2.2, #3093',
    parts: ['status', 'body', 'header content-range'],
    applies: ({ asked, theirs, ours }) =>
      says(asked, empty) && says(asked, aggregate) && isAnswered(theirs) && isAnswered(ours),
  },
  {
    rule: 'Embeddings without columns in a spread stand for no function of their name',
    source: 'PostgREST 12.2.2, #3093',
    parts: ['status', 'body', 'header content-range'],
    applies: ({ asked, theirs, ours }) =>
      says(asked, /\.\.\..*rich_projects(!\w+)*\(\)/) && isAnswered(theirs) && isAnswered(ours),
  },
  {
    rule: 'Embeddings without columns make no groups, of which one is asked for',
    source: 'PostgREST 12.2.2, #3093',
    applies: ({ asked, theirs, ours }) =>
      says(asked, empty) &&
      says(asked, aggregate) &&
      isAnswered(theirs) &&
      /^(RST116|RST103|42803)$/.test(codeOf(ours)),
  },
  {
    rule: 'Nothing is looked for, and so found to be wrong, in embeddings without columns that are nested',
    source: 'PostgREST 12.2.2, #3093',
    applies: ({ asked, theirs, ours }) =>
      says(asked, nestedEmpty) &&
      /^(22...|42501|42601)$/.test(codeOf(theirs)) &&
      (isAnswered(ours) || codeOf(ours) === 'RST116'),
  },
  {
    rule: 'Embeddings without columns are no columns of CSV',
    source: 'PostgREST 12.2.2, #3093',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) =>
      says(asked, empty) &&
      [theirs, ours].every(({ headers }) => headers['content-type'] === 'text/csv; charset=utf-8') &&
      recordsIn(theirs) === recordsIn(ours),
  },
  {
    rule: 'Aggregates in spreads are refused where aggregates are disabled',
    source: 'PostgREST 13, #3693',
    applies: ({ asked, ours }) => says(asked, /\.\.\./) && says(asked, aggregate) && codeOf(ours) === 'RST123',
  },
  {
    rule: 'What a function returns can be filtered and sorted by columns that are not selected',
    source: 'PostgREST 13, #3965',
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') &&
      (/^4270[23]$/.test(codeOf(theirs)) || tells(theirs, /ordered-set aggregate rank/)) &&
      codeOf(ours) !== '42703' &&
      isSane(ours),
  },
  {
    rule: 'What a function returns is filtered beside what is selected of it, and so of two faults another is told',
    source: 'PostgREST 13, #3965',
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') &&
      names(asked, /^select$/) &&
      [theirs, ours].every(answer => /^42/.test(codeOf(answer)) && codeOf(answer) !== '42501'),
  },
  {
    rule: 'Postgres knows what a function returns by its own name',
    source: 'PostgREST 13, #3965',
    parts: ['message', 'hint'],
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') && codeOf(theirs) === '42703' && codeOf(ours) === '42703',
  },
  {
    rule: 'A function’s name is guessed where three of four letters are right',
    source: 'PostgREST 14, #4569',
    parts: ['hint'],
    applies: ({ theirs, ours }) =>
      codeOf(theirs) === 'RST202' && codeOf(ours) === 'RST202' && tells(ours, /"hint":null/),
  },
]
