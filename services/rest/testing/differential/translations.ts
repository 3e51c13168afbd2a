/**
 * Requests in the words of PostgREST 12.0.2. Where a later version, or our contract, has a new way to say something, 12.0.2 is asked in the old way, and our answer
 * to the new one has to be the same.
 */
import type { Parameter } from './query.ts'
import { type Asked, isWrite } from './request.ts'

type Translation = {
  readonly rule: string
  /** As the source of an exception. */
  readonly source: string
  /** The request that means the same to 12.0.2; undefined where this one does. */
  readonly to: (asked: Asked) => Asked | undefined
}

const withHeader = (asked: Asked, name: string, text: string | undefined): Asked => {
  const { [name]: _, ...headers } = asked.headers
  return { ...asked, headers: text === undefined || text === '' ? headers : { ...headers, [name]: text } }
}

function changeHeader(asked: Asked, name: string, pattern: RegExp, change: (text: string) => string | undefined) {
  const text = asked.headers[name]
  return text !== undefined && pattern.test(text) ? withHeader(asked, name, change(text)) : undefined
}

function changeQuery(asked: Asked, change: (parameter: Parameter) => Parameter | undefined): Asked | undefined {
  const query = asked.query.map(change).filter(parameter => parameter !== undefined)
  return JSON.stringify(query) === JSON.stringify(asked.query) ? undefined : { ...asked, query }
}

const withoutPreference = (asked: Asked, pattern: RegExp): Asked | undefined =>
  changeHeader(asked, 'Prefer', pattern, text =>
    text
      .split(',')
      .map(one => one.trim())
      .filter(one => !pattern.test(one))
      .join(', '),
  )

const notNull = /(^|\.)(not\.)?is\.not_null(?=$|[,)])/gi
const isPage = (name: string): boolean => /(^|\.)(limit|offset)$/.test(name)

/** A page that is none is refused before anything is written: a negative limit, or one of 0 beside an offset. */
function isNoRange({ query }: Asked): boolean {
  const numberOf = (known: string) => Number(query.findLast(([name]) => name === known)?.[1] ?? Number.NaN)
  const [limit, offset] = [numberOf('limit'), numberOf('offset')]
  return limit < 0 || (limit === 0 && offset !== 0 && !Number.isNaN(offset))
}

function firstOf(body: string): string | undefined {
  try {
    const value: unknown = JSON.parse(body)
    return Array.isArray(value) && value.length > 1 ? JSON.stringify(value.slice(0, 1)) : undefined
  } catch {
    return undefined
  }
}

/** CSV without quotes as the JSON that it means; undefined where it has other lines than a head and records as wide. */
function jsonOfCsv(csv: string): string | undefined {
  const [names = [], ...rows] = csv
    .replace(/\r?\n$/, '')
    .split(/\r?\n/)
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

export const translations: readonly Translation[] = [
  {
    rule: 'Range may name its unit',
    source: 'docs/rest.md: `Range: items=0-9` is `Range: 0-9`',
    to: asked => changeHeader(asked, 'Range', /^items=/, text => text.slice('items='.length)),
  },
  {
    rule: 'Media types are names in letters of either kind',
    source: 'PostgREST 12.2, #3478',
    to: asked => {
      const small = (text: string) => text.toLowerCase()
      const accepted = changeHeader(asked, 'Accept', /[A-Z]/, small)
      return changeHeader(accepted ?? asked, 'Content-Type', /[A-Z]/, small) ?? accepted
    },
  },
  {
    rule: 'A body of JSON may be of the types that answers have',
    source: 'docs/rest.md: A body of JSON may also be of the types that answers have',
    to: asked => changeHeader(asked, 'Content-Type', /^application\/vnd\.pgrst\./, () => 'application/json'),
  },
  {
    rule: 'PUT may quote the names of the key',
    source: 'docs/rest.md: `PUT` may quote the names of the key',
    to: asked =>
      asked.method === 'PUT'
        ? changeQuery(asked, ([name, text]) => [name.replace(/^"([^.]*)"$/, '$1'), text])
        : undefined,
  },
  {
    rule: 'is.not_null is not.is.null',
    source: 'PostgREST 13, #3747',
    to: asked =>
      changeQuery(asked, ([name, text]) => [
        name,
        text.replaceAll(notNull, (_, dot: string, not?: string) => `${dot}${not === undefined ? 'not.' : ''}is.null`),
      ]),
  },
  {
    rule: 'limit and offset are decimal digits; anything else is passed over',
    source: 'docs/rest.md: `limit` and `offset` are decimal digits',
    to: asked =>
      changeQuery(asked, one =>
        isPage(one[0]) && !one[0].startsWith('nowhere.') && !/^ *-?[0-9]+ *$/.test(one[1]) ? undefined : one,
      ),
  },
  {
    rule: 'limit and offset do not choose what is updated or deleted',
    source: 'PostgREST 13, #3013',
    to: asked =>
      isWrite(asked) && asked.method !== 'PUT' && !isNoRange(asked)
        ? changeQuery(asked, one => (/^(limit|offset)$/.test(one[0]) ? undefined : one))
        : undefined,
  },
  {
    rule: 'A cast may name an array',
    source: 'docs/rest.md: A cast may name an array',
    to: asked => changeQuery(asked, ([name, text]) => [name, text.replaceAll('::int[]', '::_int4')]),
  },
  {
    rule: 'A foreign key of a table to itself is named by its constraint or its column',
    source: "docs/rest.md: A foreign key of a table to itself may be the hint of its embedding by the key's name",
    to: asked =>
      changeQuery(asked, ([name, text]) => [name, text.replaceAll('people!people_boss_id_fkey', 'people!boss_id')]),
  },
  {
    rule: 'max-affected counts where handling is strict alone',
    source: 'PostgREST 12.2, #2887',
    to: asked => withoutPreference(asked, /max-affected=[0-9]/),
  },
  {
    rule: 'params=single-object is no preference',
    source: 'PostgREST 13, #3757',
    to: asked =>
      /handling=strict/.test(asked.headers.Prefer ?? '') ? undefined : withoutPreference(asked, /params=single-object/),
  },
  {
    rule: 'CSV without quotes is JSON of its records',
    source: 'docs/rest.md: CSV is read by RFC 4180',
    to: asked => {
      // Of CSV `columns` is passed over, and errors of functions say it in other words.
      const isRecords = isWrite(asked) && !asked.query.some(([name]) => name === 'columns')
      const json = isRecords && asked.headers['Content-Type'] === 'text/csv' ? jsonOfCsv(asked.body ?? '') : undefined
      return json === undefined
        ? undefined
        : { ...asked, headers: { ...asked.headers, 'Content-Type': 'application/json' }, body: json }
    },
  },
  {
    rule: 'Rows are updated to the first of several records',
    source: 'docs/rest.md: Rows are updated to the first of several records of a body',
    to: asked => {
      const first = asked.method === 'PATCH' ? firstOf(asked.body ?? '') : undefined
      return first === undefined ? undefined : { ...asked, body: first }
    },
  },
  {
    rule: 'No body is an empty object',
    source: 'docs/rest.md: No body is `{}`',
    to: asked =>
      asked.path.startsWith('/rpc/') &&
      asked.method === 'POST' &&
      (asked.body ?? '') === '' &&
      /^(application\/json.*)?$/.test(asked.headers['Content-Type'] ?? '') &&
      (/_body$/.test(asked.path) || asked.query.some(([name]) => name === 'columns'))
        ? { ...asked, body: '{}' }
        : undefined,
  },
]

/** The request in the words of 12.0.2, and the translations that made it so. */
export function translated(asked: Asked): { readonly asked: Asked; readonly by: readonly Translation[] } {
  let found = asked
  const by: Translation[] = []
  for (const one of translations) {
    const next = one.to(found)
    if (next === undefined) continue
    found = next
    by.push(one)
  }
  return { asked: found, by }
}
