/**
 * Rules that rewrite requests for 12.0.2. The service's response to the original request must equal 12.0.2's response
 * to the rewritten request.
 */
import type { Answer } from '../../../../testing/client.ts'
import type { Parameter } from '../query.ts'
import { isWrite, type SentRequest } from '../request.ts'
import { faultOf, type Rule, withFault } from './rule.ts'

const withHeader = (sent: SentRequest, name: string, text: string): SentRequest => ({
  ...sent,
  headers: { ...sent.headers, [name]: text },
})

const changeHeader = (sent: SentRequest, name: string, change: (text: string) => string): SentRequest =>
  sent.headers[name] === undefined ? sent : withHeader(sent, name, change(sent.headers[name]))

const changeQuery = (sent: SentRequest, change: (parameter: Parameter) => Parameter | undefined): SentRequest => ({
  ...sent,
  query: sent.query.map(change).filter(parameter => parameter !== undefined),
})

/** The changed request. Undefined if the rule changes nothing. */
const changed = (sent: SentRequest, to: SentRequest): SentRequest | undefined =>
  JSON.stringify(to) === JSON.stringify(sent) ? undefined : to

/** Words that 12.0.2 spells differently in a query string. */
const newWord = /(^|(?<!->)\.)(not\.)?is\.not_null(?=$|[,)])|::int\[\]|people!people_boss_id_fkey/gi

function oldWord(word: string, dot?: string, not?: string): string {
  if (dot !== undefined) return `${dot}${not === undefined ? 'not.' : ''}is.null`
  return word.startsWith('::') ? '::_int4' : 'people!boss_id'
}

const oldText = (text: string): string => text.replaceAll(newWord, oldWord)
const oldName = ({ method }: SentRequest, name: string): string =>
  method === 'PUT' ? name.trim().replace(/^"([^.]*)"$/, '$1') : name

/** Converts an error's column in the rewritten text to the column in the original text. */
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

/**
 * The operator before a logic tree. 12.0.2 parses the tree after it, so the error's column counts the operator's
 * letters.
 */
export const operatorOf = (sent: SentRequest, text: string): string =>
  /(not\.)?(and|or)$/.exec(
    sent.query.find(([name, known]) => known === text && /(and|or)$/.test(name))?.[0] ?? '',
  )?.[0] ?? ''

/** A syntax error quotes the text, and counts its letters. */
function inNewWords(sent: SentRequest, theirs: Answer): Answer[] {
  const fault = faultOf(theirs)
  const [, before = '', , columnText = ''] =
    /^("failed to parse [^(]* \()(.*)\)" \(line 1, column (\d+)\)$/s.exec(fault?.message ?? '') ?? []
  const found = sent.query.find(
    ([, text]) => oldText(text) !== text && fault?.message.startsWith(`${before}${oldText(text)})`),
  )
  if (before === '' || found === undefined) return []
  const { length } = before.startsWith('"failed to parse logic') ? operatorOf(sent, found[1]) : ''
  const column = columnOf(found[1], Number(columnText) - length) + length
  return [withFault(theirs, { message: `${before}${found[1]})" (line 1, column ${column})` })]
}

/** A malformed page is refused before any write: a negative limit, or a limit of 0 with an offset. */
function isNoRange({ query }: SentRequest): boolean {
  const numberOf = (known: string) => Number(query.findLast(([name]) => name === known)?.[1] ?? Number.NaN)
  const [limit, offset] = [numberOf('limit'), numberOf('offset')]
  return limit < 0 || (limit === 0 && offset !== 0 && !Number.isNaN(offset))
}

/** Both servers ignore pages that are not numbers, and pages of writes. */
function withoutPages(sent: SentRequest): SentRequest {
  const isOfWrite = isWrite(sent) && sent.method !== 'PUT' && !isNoRange(sent)
  return changeQuery(sent, one => {
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

/** Converts CSV without quotes to equivalent JSON. Undefined unless all records have as many fields as the header. */
function jsonOfCsv(csv: string): string | undefined {
  const [names = [], ...rows] = csv
    .replace(/\r?\n$/, '')
    .split(/\r?\n/)
    // An empty line is not a record.
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
      'docs/rest.md: The content type of a JSON body may also be one of the response types',
      'docs/rest.md: `Range: items=0-9` means `Range: 0-9`',
    ],
    rewrite: sent => {
      const lower = changeHeader(
        changeHeader(sent, 'Accept', text => text.toLowerCase()),
        'Content-Type',
        text => text.toLowerCase(),
      )
      const plain = changeHeader(lower, 'Content-Type', text =>
        text.replace(/^application\/vnd\.pgrst\.(object|array)\+json$/, 'application/json'),
      )
      return changed(
        sent,
        changeHeader(plain, 'Range', text => text.replace(/^items=/, '')),
      )
    },
  },
  {
    rule: 'is.not_null means not.is.null, a cast may name an array, a hint may name a self-referencing key, and PUT accepts quoted and spaced names',
    source: [
      'PostgREST 13, #3747',
      'docs/rest.md: A cast may name an array type',
      'docs/rest.md: A foreign key that refers to its own table can be named as the hint of an embedding',
      'docs/rest.md: `PUT` may quote the names of the key, or have spaces around them',
    ],
    rewrite: sent =>
      changed(
        sent,
        changeQuery(sent, ([name, text]) => [oldName(sent, name), oldText(text)]),
      ),
    answers: ({ sent, theirs }) => inNewWords(sent, theirs),
  },
  {
    rule: 'limit and offset are ignored where they are not decimal digits, and by updates and deletes',
    source: ['docs/rest.md: `limit` and `offset` are decimal digits', 'PostgREST 13, #3013'],
    rewrite: sent => changed(sent, withoutPages(sent)),
  },
  {
    rule: 'CSV without quotes means the JSON of its records',
    source: ['docs/rest.md: CSV is read by RFC 4180'],
    rewrite: sent => {
      // For CSV, `columns` is ignored, and errors of functions have other texts.
      const isRecords = isWrite(sent) && !sent.query.some(([name]) => name === 'columns')
      const json = isRecords && sent.headers['Content-Type'] === 'text/csv' ? jsonOfCsv(sent.body ?? '') : undefined
      return json === undefined ? undefined : { ...withHeader(sent, 'Content-Type', 'application/json'), body: json }
    },
  },
  {
    rule: 'Rows are updated to the first of several records',
    source: ['docs/rest.md: An update with a list of several objects uses the first'],
    rewrite: sent =>
      sent.method === 'PATCH' ? changed(sent, { ...sent, body: sent.body && firstOf(sent.body) }) : undefined,
  },
  {
    rule: 'A missing body means an empty object',
    source: ['docs/rest.md: A missing body is `{}`'],
    rewrite: sent =>
      sent.path.startsWith('/rpc/') &&
      sent.method === 'POST' &&
      (sent.body ?? '') === '' &&
      /^(application\/json.*)?$/.test(sent.headers['Content-Type'] ?? '') &&
      (/_body$/.test(sent.path) || sent.query.some(([name]) => name === 'columns'))
        ? { ...sent, body: '{}' }
        : undefined,
  },
]
