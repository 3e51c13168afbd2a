/** Exceptions of what requests read by: query strings, rows that come back, and errors. */
import type { Answer } from '../../../../testing/client.ts'
import { isSameBody } from '../compare.ts'
import type { Asked } from '../request.ts'
import { relations } from '../resources.ts'
import { aggregate, isAnswered, isOfDatabase, names, says, tells, withoutHidden } from './answers.ts'
import { codeOf, type Exception } from './exception.ts'

/** What stands between brackets and commas, in an order of its own: of objects that have a key twice, too. */
const sortedParts = (asked: Asked, { text }: Answer): string =>
  withoutHidden(asked, text)
    .replaceAll(/[ \r]/g, '')
    .split(/[,[\]{}\n]/)
    .filter((part, index, all) => part !== '' && all.indexOf(part) === index)
    .sort()
    .join()
/** What the contract says, and what docs/rest.md tells users. */
export const ofQueries: readonly Exception[] = [
  {
    rule: 'A filter of an embedding that asks for anything but null is RST120',
    source: 'the contract: own errors',
    applies: ({ theirs, ours }) =>
      codeOf(ours) === 'RST120' &&
      (isAnswered(theirs) || isOfDatabase(theirs) || /^RST(1(05|07|15|16|22)|204)$/.test(codeOf(theirs))),
  },
  {
    rule: 'Of a limit that Postgres cannot take the last digits, or another fault of the database, may be told',
    source: 'docs/rest.md: `limit` and `offset` are decimal digits',
    applies: ({ theirs, ours }) =>
      tells(theirs, /value "\d{16,}" is out of range for type bigint/) && isOfDatabase(ours),
  },
  {
    rule: 'To select nothing is to select all columns, with their conversions',
    source: 'docs/rest.md: An empty `select` selects all columns, with the conversions of their domains',
    parts: ['body'],
    applies: ({ asked, theirs, ours }) =>
      asked.query.some(([name, value]) => name === 'select' && !/^(\*(?=,|$)|[\p{L}\p{N}_"$ ])/u.test(value)) &&
      isAnswered(theirs) &&
      isAnswered(ours),
  },
  {
    rule: 'What a planner guesses, it guesses of our statement',
    source: 'docs/rest.md: `count=planned` and `count=estimated` go by what Postgres guesses of our statement',
    parts: ['status', 'header content-range'],
    applies: ({ asked, theirs, ours }) =>
      /count=(planned|estimated)/.test(asked.headers.Prefer ?? '') &&
      isAnswered(theirs) &&
      isAnswered(ours) &&
      theirs.headers['content-range']?.split('/')[0] === ours.headers['content-range']?.split('/')[0],
  },
  {
    rule: 'What a planner guesses, it guesses of our statement, also of rows beyond which an offset is',
    source: 'docs/rest.md: `count=planned` and `count=estimated` go by what Postgres guesses of our statement',
    applies: ({ asked, theirs, ours }) =>
      /count=(planned|estimated)/.test(asked.headers.Prefer ?? '') &&
      [theirs, ours].some(({ status }) => status === 416) &&
      [theirs, ours].every(answer => answer.status === 416 || isAnswered(answer)),
  },
  {
    rule: 'What a planner guesses is asked before the rows',
    source: 'docs/rest.md: and are asked for first',
    applies: ({ asked, theirs, ours }) =>
      /count=(planned|estimated)/.test(asked.headers.Prefer ?? '') && isOfDatabase(theirs) && isOfDatabase(ours),
  },
  {
    rule: 'A value that the conversion of a domain refuses is found even where no row is compared with it',
    source: 'docs/rest.md: refuses what it cannot convert even where there is no row to compare',
    applies: ({ asked, theirs, ours }) =>
      asked.query.some(one => /code/.test(one.join())) &&
      (isAnswered(theirs) || /^(25006|42501)$/.test(codeOf(theirs))) &&
      codeOf(ours) === '22P02',
  },
  {
    rule: 'Of several relations that may not be read another may be told',
    source: 'docs/rest.md: of several relations, values and embeddings that Postgres refuses, it decides which',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === '42501' && codeOf(ours) === '42501',
  },
  {
    rule: 'What is ordered by is said to be of the relation that a function returns rows of',
    source: 'docs/rest.md: Rows that a function returns go by the name of their relation',
    parts: ['details'],
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') && codeOf(ours) === 'RST118' && tells(theirs, /'pgrst_source' and/),
  },
  {
    rule: 'Of several rows with a value that cannot be converted, whichever comes first is told',
    source: 'docs/rest.md: of several relations, values and embeddings that Postgres refuses, it decides which',
    parts: ['message'],
    applies: ({ asked, theirs, ours }) =>
      says(asked, /::/) && [theirs, ours].every(answer => tells(answer, /"22P02".*invalid input syntax for type/)),
  },
  {
    rule: 'A text search that cannot be read is refused or not where no row is compared with it, as Postgres decides',
    source: 'docs/rest.md: whether it reads a text search that no row is compared with',
    applies: ({ asked, theirs, ours }) =>
      asked.path.startsWith('/rpc') &&
      tells(theirs, /"42601".*syntax error in tsquery/) &&
      isAnswered(ours) &&
      /^(\[\])?$/.test(ours.text),
  },
  {
    rule: 'A value of a row that a filter of an embedding leaves out is looked at or not, as Postgres decides',
    source: 'docs/rest.md: or of a row that a filter of an embedding leaves out',
    applies: ({ asked, theirs, ours }) =>
      says(asked, /::/) &&
      names(asked, /\./) &&
      [theirs, ours].some(isAnswered) &&
      [theirs, ours].some(answer => /^22/.test(codeOf(answer))),
  },
  {
    rule: 'Of faults in several embeddings that Postgres finds another may be told',
    source: 'docs/rest.md: of several relations, values and embeddings that Postgres refuses, it decides which',
    applies: ({ asked, theirs, ours }) =>
      (says(asked, /\(.*\(|\.\.\./) || asked.query.length > 1) &&
      [theirs, ours].every(answer => /^(22|42)/.test(codeOf(answer))),
  },
  {
    rule: 'Where a view has several rows for what it is to one of, count=exact counts them all',
    source: 'docs/rest.md: also where a view that is embedded has several for one',
    parts: ['header content-range', 'status'],
    applies: ({ asked, theirs, ours }) =>
      says(asked, /client_projects/) &&
      /count=/.test(asked.headers.Prefer ?? '') &&
      isAnswered(theirs) &&
      isAnswered(ours) &&
      theirs.headers['content-range']?.split('/')[0] === ours.headers['content-range']?.split('/')[0],
  },
  {
    rule: 'What a limit or offset leaves of an embedding decides whether its parent is counted',
    source: 'docs/rest.md: where a limit or offset of an embedding decides which rows have one',
    parts: ['header content-range', 'status'],
    applies: ({ asked, theirs, ours }) =>
      names(asked, /\.(limit|offset)$/) &&
      (asked.query.some(([, value]) => /^(not\.)?is\.(null|not_null)$/i.test(value)) || says(asked, /!inner/)) &&
      /count=/.test(asked.headers.Prefer ?? '') &&
      isAnswered(theirs) &&
      isAnswered(ours) &&
      theirs.headers['content-range']?.split('/')[0] === ours.headers['content-range']?.split('/')[0],
  },
  {
    rule: 'Values of domains are converted however their relation is embedded',
    source: 'docs/rest.md: Values are converted however their relation is embedded',
    applies: ({ asked, theirs, ours }) => {
      const plain = ({ text }: Answer) =>
        text
          .replaceAll('""', '"')
          .replaceAll(/"(\\")?C(\d+)\1"/g, (_, quote: string | undefined, digits: string) =>
            quote === undefined ? digits : `"${digits}"`,
          )
      return (
        (says(asked, /(project_id|client_projects|rich_projects)(!\w+)*\(/) &&
          names(asked, /\.(code|and|or)$/) &&
          (codeOf(theirs) === '22P02' || isAnswered(theirs)) &&
          (codeOf(ours) === '22P02' || isAnswered(ours))) ||
        (says(asked, /(project_id|rich_projects)(!\w+)*\(.*code/) &&
          isAnswered(theirs) &&
          ((codeOf(ours) === '42846' && says(asked, /code::/)) ||
            isSameBody(asked, { ...theirs, text: plain(theirs) }, { ...ours, text: plain(ours) }) ||
            sortedParts(asked, { ...theirs, text: plain(theirs) }) ===
              sortedParts(asked, { ...ours, text: plain(ours) })))
      )
    },
  },
  {
    rule: 'HEAD makes no body, and so finds no value in it that cannot be converted, and no relation that may not be read',
    source:
      'docs/rest.md: `HEAD` is answered as `GET` is, but for what only a body would show to be wrong, or not to be read',
    applies: ({ asked, theirs, ours }) =>
      asked.method === 'HEAD' &&
      (/^(22|42501$|42601$)/.test(codeOf(theirs)) || (theirs.status === 400 && theirs.text === '')) &&
      names(asked, /^select$/) &&
      (isAnswered(ours) || ours.status === 406),
  },
  {
    rule: 'What a path is called is not grouped by, where a column is of that name',
    source: 'docs/rest.md: so may the last key of a path, by which it is grouped',
    applies: ({ asked, theirs, ours }) =>
      says(asked, aggregate) &&
      relations[decodeURIComponent(asked.path.slice(1))]?.columns.some(([name]) =>
        says(asked, new RegExp(`->>?${name}(,|$)`)),
      ) === true &&
      isAnswered(theirs) &&
      isAnswered(ours),
  },
  {
    rule: 'Groups come in an order, and a type without one cannot be grouped by',
    source: 'docs/rest.md: Groups of an aggregate come in the order of their columns',
    parts: ['message', 'hint'],
    applies: ({ theirs, ours }) =>
      tells(theirs, /could not identify an equality operator for type/) &&
      tells(ours, /could not identify an ordering operator for type/),
  },
  {
    rule: 'Of several columns that are not grouped by, another may be told: keys of an answer stand in the order in which they are asked for',
    source: 'docs/rest.md: Keys of an object stand in the order in which `select` has them',
    parts: ['message'],
    applies: ({ theirs, ours }) => codeOf(theirs) === '42803' && codeOf(ours) === '42803',
  },
  {
    rule: 'An offset beyond the rows is answered as an error is, without the headers of an answer',
    source: 'docs/rest.md: An offset beyond the rows (416) is answered as an error',
    parts: [
      'header content-location',
      'header content-profile',
      'header content-range',
      'header content-type',
      'header preference-applied',
    ],
    applies: ({ theirs, ours }) => theirs.status === 416 && ours.status === 416,
  },
]
