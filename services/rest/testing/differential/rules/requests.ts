/** Rules of requests that 12.0.2 is asked in other words: our answer to the request as it is has to be the same. */
import type { Answer } from '../../../../testing/client.ts'
import type { Parameter } from '../query.ts'
import { type Asked, isWrite } from '../request.ts'
import { faultOf, type Rule, withFault } from './rule.ts'

const withHeader = (asked: Asked, name: string, text: string): Asked => ({
  ...asked,
  headers: { ...asked.headers, [name]: text },
})

const changeHeader = (asked: Asked, name: string, change: (text: string) => string): Asked =>
  asked.headers[name] === undefined ? asked : withHeader(asked, name, change(asked.headers[name]))

const changeQuery = (asked: Asked, change: (parameter: Parameter) => Parameter | undefined): Asked => ({
  ...asked,
  query: asked.query.map(change).filter(parameter => parameter !== undefined),
})

/** The changed request; undefined where nothing is changed. */
const changed = (asked: Asked, to: Asked): Asked | undefined =>
  JSON.stringify(to) === JSON.stringify(asked) ? undefined : to

/** Words of a query string for which 12.0.2 has other ones. */
const newWord = /(^|(?<!->)\.)(not\.)?is\.not_null(?=$|[,)])|::int\[\]|people!people_boss_id_fkey/gi

function oldWord(word: string, dot?: string, not?: string): string {
  if (dot !== undefined) return `${dot}${not === undefined ? 'not.' : ''}is.null`
  return word.startsWith('::') ? '::_int4' : 'people!boss_id'
}

const oldText = (text: string): string => text.replaceAll(newWord, oldWord)
const oldName = ({ method }: Asked, name: string): string =>
  method === 'PUT' ? name.trim().replace(/^"([^.]*)"$/, '$1') : name

/** The column of an error in the text, from that in its old words. */
function columnOf(text: string, oldColumn: number): number {
  let longer = 0
  for (const { 0: word, 1: dot, 2: not, index } of text.matchAll(newWord)) {
    const old = oldWord(word, dot, not)
    let common = 0
    while (common < old.length && old[common] === word[common]) common++
    if (oldColumn <= index - longer + common + 1) break
    longer += word.length - old.length
  }
  return oldColumn + longer
}

/** The operator before a logic tree, behind which it is parsed, so that the column of an error counts its letters. */
export const operatorOf = (asked: Asked, text: string): string =>
  /(not\.)?(and|or)$/.exec(
    asked.query.find(([name, known]) => known === text && /(and|or)$/.test(name))?.[0] ?? '',
  )?.[0] ?? ''

/** An error of syntax quotes the text, and counts its letters. */
function inNewWords(asked: Asked, theirs: Answer): Answer[] {
  const fault = faultOf(theirs)
  const [, before = '', , place = ''] =
    /^("failed to parse [^(]* \()(.*)\)" \(line 1, column (\d+)\)$/s.exec(fault?.message ?? '') ?? []
  const found = asked.query.find(
    ([, text]) => oldText(text) !== text && fault?.message.startsWith(`${before}${oldText(text)})`),
  )
  if (before === '' || found === undefined) return []
  const { length } = before.startsWith('"failed to parse logic') ? operatorOf(asked, found[1]) : ''
  const column = columnOf(found[1], Number(place) - length) + length
  return [withFault(theirs, { message: `${before}${found[1]})" (line 1, column ${column})` })]
}

/** A malformed page is refused before anything is written: a negative limit, or one of 0 beside an offset. */
function isNoRange({ query }: Asked): boolean {
  const numberOf = (known: string) => Number(query.findLast(([name]) => name === known)?.[1] ?? Number.NaN)
  const [limit, offset] = [numberOf('limit'), numberOf('offset')]
  return limit < 0 || (limit === 0 && offset !== 0 && !Number.isNaN(offset))
}

/** Pages that are not numbers are ignored, and so are those of writes. */
function withoutPages(asked: Asked): Asked {
  const isOfWrite = isWrite(asked) && asked.method !== 'PUT' && !isNoRange(asked)
  return changeQuery(asked, one => {
    const isNumber =
      !/(^|\.)(limit|offset)$/.test(one[0]) || one[0].startsWith('nowhere.') || /^ *-?[0-9]+ *$/.test(one[1])
    return isNumber && !(isOfWrite && /^(limit|offset)$/.test(one[0])) ? one : undefined
  })
}

function firstOf(body: string): string {
  try {
    const value: unknown = JSON.parse(body)
    return Array.isArray(value) && value.length > 1 ? JSON.stringify(value.slice(0, 1)) : body
  } catch {
    return body
  }
}

/** CSV without quotes as the JSON that it means; undefined where it has other lines than a head and records as wide. */
function jsonOfCsv(csv: string): string | undefined {
  const [names = [], ...rows] = csv
    .replace(/\r?\n$/, '')
    .split(/\r?\n/)
    // A line that is empty is no record.
    .filter((line, index) => line !== '' || index === 0)
    .map(line => line.split(','))
  const isPlain =
    !csv.includes('"') &&
    rows.length > 0 &&
    names.every(name => name !== '') &&
    new Set(names).size === names.length &&
    rows.every(row => row.length === names.length)
  if (!isPlain) return undefined
  const cell = (text: string | undefined) => (text === 'NULL' ? null : text)
  return JSON.stringify(rows.map(row => Object.fromEntries(names.map((name, index) => [name, cell(row[index])]))))
}

export const ofRequests: readonly Rule[] = [
  {
    rule: 'Media types ignore case, a JSON body may have the type of an answer, and Range may name its unit',
    source: [
      'PostgREST 12.2, #3478',
      'docs/rest.md: A body of JSON may also be of the types that answers have',
      'docs/rest.md: `Range: items=0-9` is `Range: 0-9`',
    ],
    asks: asked => {
      const lower = changeHeader(
        changeHeader(asked, 'Accept', text => text.toLowerCase()),
        'Content-Type',
        text => text.toLowerCase(),
      )
      const plain = changeHeader(lower, 'Content-Type', text =>
        text.replace(/^application\/vnd\.pgrst\.(object|array)\+json$/, 'application/json'),
      )
      return changed(
        asked,
        changeHeader(plain, 'Range', text => text.replace(/^items=/, '')),
      )
    },
  },
  {
    rule: 'is.not_null means not.is.null, a cast may name an array, a hint may name a self-referencing key, and PUT accepts quoted and spaced names',
    source: [
      'PostgREST 13, #3747',
      'docs/rest.md: A cast may name an array',
      "docs/rest.md: A foreign key of a table to itself may be the hint of its embedding by the key's name",
      'docs/rest.md: `PUT` may quote the names of the key, or have spaces around them',
    ],
    asks: asked =>
      changed(
        asked,
        changeQuery(asked, ([name, text]) => [oldName(asked, name), oldText(text)]),
      ),
    answers: ({ asked, theirs }) => inNewWords(asked, theirs),
  },
  {
    rule: 'limit and offset are ignored where they are not decimal digits, and by updates and deletes',
    source: ['docs/rest.md: `limit` and `offset` are decimal digits', 'PostgREST 13, #3013'],
    asks: asked => changed(asked, withoutPages(asked)),
  },
  {
    rule: 'CSV without quotes means the JSON of its records',
    source: ['docs/rest.md: CSV is read by RFC 4180'],
    asks: asked => {
      // Of CSV `columns` is passed over, and errors of functions say it in other words.
      const isRecords = isWrite(asked) && !asked.query.some(([name]) => name === 'columns')
      const json = isRecords && asked.headers['Content-Type'] === 'text/csv' ? jsonOfCsv(asked.body ?? '') : undefined
      return json === undefined ? undefined : { ...withHeader(asked, 'Content-Type', 'application/json'), body: json }
    },
  },
  {
    rule: 'Rows are updated to the first of several records',
    source: ['docs/rest.md: Rows are updated to the first of several records of a body'],
    asks: asked =>
      asked.method === 'PATCH' ? changed(asked, { ...asked, body: asked.body && firstOf(asked.body) }) : undefined,
  },
  {
    rule: 'A missing body means an empty object',
    source: ['docs/rest.md: No body is `{}`'],
    asks: asked =>
      asked.path.startsWith('/rpc/') &&
      asked.method === 'POST' &&
      (asked.body ?? '') === '' &&
      /^(application\/json.*)?$/.test(asked.headers['Content-Type'] ?? '') &&
      (/_body$/.test(asked.path) || asked.query.some(([name]) => name === 'columns'))
        ? { ...asked, body: '{}' }
        : undefined,
  },
]
