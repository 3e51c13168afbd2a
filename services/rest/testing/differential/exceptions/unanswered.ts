/**
 * Requests that PostgREST 12.0.2 cannot answer for faults of its own, which later versions do not have: its answer says nothing of what ours has to be. They are
 * counted, and may be few.
 */
import type { Answer } from '../../../../testing/client.ts'
import { allLevels, type Level, levelsOf } from '../levels.ts'
import { type Asked, isWrite } from '../request.ts'
import { aggregate, ofServer, says, tells } from './answers.ts'
import { codeOf } from './exception.ts'

type Unanswered = {
  /** What 12.0.2 fails at. */
  readonly fault: string
  /** As the source of an exception. */
  readonly source: string
  readonly applies: (asked: Asked, theirs: Answer) => boolean
}

/** An embedding without columns inside of another, or in a spread. */
const emptyInside = /\((.*[,(:.])?(?!(sum|avg|count|max|min)\()[^.,():]+\(\)|\.\.\.[^(),]*\(\)/

/** The key that a column is shown by. */
const keyOf = (item: string): string => item.replace(/::.*$/, '').replace(/^("[^"]*"|[^":]+):.*$/, '$1')
const isTwice = ({ items, embedded }: Level): boolean => {
  const keys = items.map(keyOf)
  return embedded.some(
    one => one.isSpread && one.items.map(keyOf).some(key => key === '*' || keys.includes(key) || keys.includes('*')),
  )
}

export const unanswered: readonly Unanswered[] = [
  {
    fault: 'to spread rows of which there are many',
    source: 'PostgREST 13, #3041',
    applies: (asked, theirs) => says(asked, /\.\.\./) && codeOf(theirs) === 'RST119',
  },
  {
    fault: 'an embedding without columns inside of another or of a spread',
    source: 'PostgREST 12.2.2, #3093',
    applies: asked => asked.query.some(([name, text]) => name === 'select' && emptyInside.test(text)),
  },
  {
    fault: 'a spread inside of an embedding that brings a column which is there already',
    source: 'docs/rest.md: Keys of an object stand in the order in which `select` has them',
    applies: asked => allLevels(levelsOf(asked)).some(level => level.prefix !== '' && isTwice(level)),
  },
  {
    fault: 'a full-text search of what is neither text nor tsvector',
    source: 'PostgREST 13, #2255',
    applies: (asked, theirs) => says(asked, /fts/) && codeOf(theirs) === '42883' && tells(theirs, /@@ tsquery"/),
  },
  {
    fault: 'to filter or order what a function returns by what is not selected',
    source: 'PostgREST 13, #3965',
    applies: (asked, theirs) =>
      asked.path.startsWith('/rpc') &&
      (/^4270[23]$/.test(codeOf(theirs)) || tells(theirs, /ordered-set aggregate rank/)),
  },
  {
    fault: 'groups of embedded rows, and names that are columns beside an aggregate',
    source: 'docs/rest.md: Beside an aggregate, an alias may be the name of another column',
    applies: (asked, theirs) =>
      (says(asked, aggregate) || says(asked, /\.\.\./)) &&
      /^42(702|703|803|883)$/.test(codeOf(theirs)) &&
      tells(
        theirs,
        /column "?\w+_\d+\.|is ambiguous|not allowed in FROM clause|function \w+\(json\)|equality operator for type json|must appear in the GROUP BY/,
      ),
  },
  {
    fault: 'a JSON path into a domain with conversions, or into a column of an embedding',
    source: 'docs/rest.md: A JSON path goes into any column, of embeddings too',
    applies: (asked, theirs) =>
      asked.query.some(one => /code->|\(\w+->/.test(one.join())) &&
      tells(theirs, /"42883".*operator does not exist: \S+ ->/),
  },
  {
    fault: 'a function embed beside a column of its parent\u2019s name',
    source: "docs/rest.md: a function embed beside a relation that brings a column of the parent's name",
    applies: (_asked, theirs) => tells(theirs, /"42846".*cannot cast type jsonb? to /),
  },
  {
    fault: 'a relation that is embedded twice, once in a spread',
    source: 'docs/rest.md: The same relation may be embedded several times',
    applies: (_asked, theirs) => codeOf(theirs) === '42712' && tells(theirs, /specified more than once/),
  },
  {
    fault: 'a negative limit of an embedding, which is answered without a code',
    source:
      'docs/rest.md: A negative `limit` of an embedding is an error of Postgres (2201W), and one of 0 beside an offset is none',
    applies: (_asked, theirs) => theirs.status === 500 && theirs.text === 'Something went wrong',
  },
  {
    fault: 'a handler of any element for some of its columns, or for conversions',
    source: 'PostgREST 12.0.3, #3160',
    applies: (asked, theirs) => /html|list/.test(asked.headers.Accept ?? '') && /^42(846|704)$/.test(codeOf(theirs)),
  },
  {
    fault: 'a filter of the rows that a write returns',
    source: 'PostgREST 13, #3013',
    applies: (asked, theirs) => isWrite(asked) && codeOf(theirs) === 'RST109',
  },
]

/** Ours is an answer, or an error with a code; 500 is only for what Postgres says is the server's fault. */
export const isCoded = (answer: Answer): boolean =>
  answer.status < 300 ||
  (codeOf(answer) !== '' && (answer.status < 500 || ofServer.test(codeOf(answer)))) ||
  answer.text === ''
