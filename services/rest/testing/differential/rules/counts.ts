/** Rules about preferences, values and plans. */
import type { Answer } from '../../../../testing/client.ts'
import type { SentRequest } from '../request.ts'
import { codeOf, faultOf, isDone, isOfDatabase, prefers, type Rule, refused, withHeaders } from './rule.ts'

const isPlan = ({ headers }: Answer): boolean =>
  headers['content-type']?.startsWith('application/vnd.pgrst.plan') === true

/** The parts of a plan that do not depend on its statement: its format and options. */
function planParts(text: string): string {
  if (text.startsWith('[')) {
    const plans: readonly Record<string, unknown>[] = JSON.parse(text)
    return JSON.stringify(plans.map(plan => Object.keys(plan)))
  }
  const options = ['Output:', 'actual time=', 'Buffers:', 'WAL:'].filter(part => text.includes(part))
  return [...options, ...[...text.matchAll(/^(?!Trigger)(\w[\w ]*):/gm)].map(([, name]) => name)].join()
}

const functionsOfSets =
  /^\/rpc\/(numbers|texts|all_projects|projects_over|all_clients|table_of|some_pairs|set_of_record|many_json|moods|rows_of|no_rows|delete_notes|Odd%20Func)$/

/** The first preference with this name is used. */
function limitOf({ headers, method, path }: SentRequest): string | undefined {
  const all = (headers.Prefer ?? '').split(',').map(one => one.trim())
  const isStrict = all.find(one => one.startsWith('handling=')) === 'handling=strict'
  const isLimited = /^(PATCH|DELETE)$/.test(method) || (path.startsWith('/rpc/') && method !== 'OPTIONS')
  return isStrict && isLimited
    ? all.find(one => /^max-affected=\d+$/.test(one))?.slice('max-affected='.length)
    : undefined
}

/** 12.0.2 has no max-affected. With a count, it returns how many rows a write affects. */
function countedOf(sent: SentRequest): SentRequest | undefined {
  const all = (sent.headers.Prefer ?? '').split(',').map(one => one.trim())
  const preferences = all.filter(one => !/^max-affected=\d/.test(one))
  if (preferences.length === all.length) return undefined
  const isCounted =
    limitOf(sent) === undefined || sent.path.startsWith('/rpc/') || preferences.some(one => one.startsWith('count='))
  const { Prefer: _, ...headers } = sent.headers
  const words = [...preferences, ...(isCounted ? [] : ['count=exact'])].join(', ')
  return { ...sent, headers: words === '' ? headers : { ...headers, Prefer: words } }
}

/** Whether a statement ran and gave this result or error. A malformed page is refused before any statement. */
const isExecuted = (theirs: Answer): boolean =>
  isDone(theirs) ||
  isOfDatabase(theirs) ||
  /^RST(11[126]|121)$/.test(codeOf(theirs)) ||
  String(faultOf(theirs)?.details).startsWith('An offset of ')

function limited(sent: SentRequest, theirs: Answer): Answer[] {
  const most = limitOf(sent)
  if (most === undefined) return []
  const isCall = sent.path.startsWith('/rpc/')
  if (isCall && !functionsOfSets.test(sent.path)) return isExecuted(theirs) ? [noSet] : []
  const [, shown] =
    /^The result contains (\d+) rows$/.exec(String(codeOf(theirs) === 'RST116' && faultOf(theirs)?.details)) ?? []
  if (shown !== undefined) return Number(shown) > Number(most) ? [tooMany(shown)] : []
  if (!isDone(theirs) || theirs.headers['preference-applied'] === undefined) return []
  const [, first, last, all] = /^(?:(\d+)-(\d+)|\*)\/(\d+|\*)$/.exec(theirs.headers['content-range'] ?? '') ?? []
  const rows = isCall ? (first === undefined ? 0 : Number(last) - Number(first) + 1) : Number(all)
  if (rows > Number(most)) return [tooMany(String(rows))]
  const isCounted = isCall || prefers(sent, /count=/)
  const applied = String(theirs.headers['preference-applied'] ?? '')
  return [
    withHeaders(theirs, {
      'preference-applied': `${isCounted ? applied : applied.replace(/, count=exact|count=exact, /, '')}, max-affected=${most}`,
      ...(isCounted ? {} : { 'content-range': String(theirs.headers['content-range']).replace(/\d+$/, '*') }),
    }),
  ]
}

const tooMany = (rows: string): Answer =>
  refused(400, {
    code: 'RST124',
    message: 'Query result exceeds max-affected preference constraint',
    details: `The query affects ${rows} rows`,
  })

const noSet = refused(400, {
  code: 'RST128',
  message: 'Function must return SETOF or TABLE when max-affected preference is used with handling=strict',
})

export const ofCounts: readonly Rule[] = [
  {
    rule: 'max-affected applies only with handling=strict',
    source: ['PostgREST 12.2, #2887'],
    rewrite: countedOf,
    answers: ({ sent, theirs }) => limited(sent, theirs),
  },
  {
    rule: 'A plan describes our statement',
    source: ["docs/rest.md: Plans are those of this service's statements"],
    reduces: answer => (isDone(answer) && isPlan(answer) ? { ...answer, text: planParts(answer.text) } : undefined),
  },
  {
    rule: 'A function of one unnamed parameter receives a value that is neither object nor list unchanged',
    source: [
      'docs/rest.md: A function with one unnamed `json` or `jsonb` parameter gets a body that is a plain value (such as `5`) unchanged',
    ],
    answers: ({ sent: { path, body }, theirs }) =>
      /^\/rpc\/jsonb?_body$/.test(path) &&
      isDone(theirs) &&
      theirs.text === '[]' &&
      body !== undefined &&
      !/^\s*\[/.test(body)
        ? [{ ...theirs, text: body }]
        : [],
  },
  {
    rule: 'A single object of a set of values is the value itself',
    source: [
      'docs/rest.md: `application/vnd.pgrst.object+json` of a function that returns a set of values is the value itself',
    ],
    answers: ({ theirs }) => {
      const [, value] = /^\{"pgrst_scalar":(.*)\}$/s.exec(theirs.text) ?? []
      return value === undefined ? [] : [{ ...theirs, text: value }]
    },
  },
  {
    rule: 'An upsert of rows that a trigger skips returns 200',
    source: ['docs/rest.md: An upsert whose rows are skipped by a trigger gets 200'],
    answers: ({ sent, theirs }) =>
      sent.path === '/picky' &&
      prefers(sent, /resolution=merge-duplicates/) &&
      !prefers(sent, /ignore-duplicates.*merge-duplicates/) &&
      theirs.status === 201 &&
      areSkipped(sent.body ?? '')
        ? [{ ...theirs, status: 200 }]
        : [],
  },
  {
    rule: 'With missing=default JSON is stored as it was sent',
    source: ['docs/rest.md: With `Prefer: missing=default`, JSON is stored in a `json` or text column as it was sent'],
    answers: ({ sent, theirs }) => {
      if (!prefers(sent, /missing=default/)) return []
      const text = valuesOf(sent.body ?? '').reduce<string>(
        (found, value) => found.replaceAll(inJson(spaced(value)), inJson(JSON.stringify(value))),
        theirs.text,
      )
      return text === theirs.text ? [] : [{ ...theirs, text }]
    },
  },
]

function rowsOf(body: string): readonly object[] {
  try {
    const rows: unknown = JSON.parse(body)
    return (Array.isArray(rows) ? rows : [rows]).filter(row => typeof row === 'object' && row !== null)
  } catch {
    return []
  }
}

/** Whether the trigger skips all rows of a body. */
function areSkipped(body: string): boolean {
  const [head = '', ...lines] = body.trim().split(/\r?\n/)
  const at = head.split(',').indexOf('name')
  const rows = rowsOf(body)
  const names = rows.length > 0 ? rows.map(row => 'name' in row && row.name) : lines.map(line => line.split(',')[at])
  return names.length > 0 && names.every(name => name === 'skip')
}

/** The lists and objects in the columns of a body. */
const valuesOf = (body: string): readonly object[] =>
  rowsOf(body)
    .flatMap(row => Object.values(row))
    .filter(value => typeof value === 'object' && value !== null)

/** As jsonb writes it. */
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, one]) => `${JSON.stringify(key)}: ${spaced(one)}`)
    .join(', ')}}`
}

/** Inside a JSON string. */
const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)
