/**
 * Known failures of PostgREST 12.0.2, and results that depend on the planner or on chance. The test changes such a
 * request for 12.0.2, or omits it. The service still gets the original request, and must return a success or an error
 * with a code.
 */
import { aggregate, allLevels, type Level, levelsOf } from './levels.ts'
import type { Parameter } from './query.ts'
import { isWrite, type SentRequest } from './request.ts'
import { relations } from './resources.ts'

type Headers = Readonly<Record<string, string>>

const isCall = ({ path }: SentRequest): boolean => path.startsWith('/rpc/')
const isOfValues = (sent: SentRequest): boolean =>
  sent.method !== 'POST' || /form/.test(sent.headers['Content-Type'] ?? '')
const without = (headers: Headers, name: string): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([known]) => known !== name))

function preferring(sent: SentRequest, change: (one: string) => string | undefined): SentRequest {
  const text = sent.headers.Prefer
  if (text === undefined) return sent
  const remaining = text
    .split(',')
    .map(one => change(one.trim()))
    .filter(one => one !== undefined)
  return {
    ...sent,
    headers:
      remaining.length === 0 ? without(sent.headers, 'Prefer') : { ...sent.headers, Prefer: remaining.join(', ') },
  }
}

const queried = (sent: SentRequest, keep: (parameter: Parameter) => boolean): SentRequest => ({
  ...sent,
  query: sent.query.filter(keep),
})

const bare = (item: string): string => item.replace(/^("[^"]*"|[^":.(]+):(?!:)/, '')
const columnOf = (item: string): string => bare(item).replace(/(->|::|\.(sum|avg|count|max|min)\(\)).*$/s, '')
/** A column's key in the response. */
const keyOf = (item: string): string => {
  const plain = item.replace(/::.*$/, '')
  return /^("[^"]*"|[^":]+):/.exec(plain)?.[1] ?? /->>?([^->]+)$/.exec(plain)?.[1] ?? plain
}

/** An aggregate that is written as a column. */
const isCount = /^([^:]*:)?count$/

const hasAggregates = (level: Level): boolean =>
  level.items.some(item => aggregate.test(item) || isCount.test(item)) ||
  level.embedded.some(one => one.isSpread && hasAggregates(one))

/** Groups of embedded rows, and groups of columns that have another column's name. */
function isGroupedAgain(level: Level): boolean {
  if (!hasAggregates(level)) return false
  const names = level.relation?.columns.map(([name]) => name) ?? []
  return (
    level.embedded.length > 0 ||
    (level.items.some(item => aggregate.test(item)) && level.items.some(item => isCount.test(item))) ||
    level.items.some(item => !aggregate.test(item) && /:code\b/.test(item)) ||
    level.items.some(item => !aggregate.test(item) && keyOf(item) !== columnOf(item) && names.includes(keyOf(item)))
  )
}

/** A spread whose column already exists. */
const isTwice = ({ items, embedded }: Level): boolean =>
  embedded.some(
    one =>
      one.isSpread &&
      (one.embedded.length > 0 ||
        one.items.some(item => keyOf(item) === '*' || items.map(keyOf).includes(keyOf(item)) || items.includes('*'))),
  )

/** An aggregate of values that have conversions. */
const isOfJson = ({ items }: Level): boolean => items.some(item => /^([^:]*:)?code\.(sum|avg|max|min)/.test(item))

const isFunction = ({ text }: Level): boolean => /^(payer|rich_projects|teller)$/.test(text)
/** Rows with conversions that are embedded by a column, a function or a view. 12.0.2 does not convert them. */
const isUnconverted = ({ text, relation, items, prefix }: Level, sent: SentRequest): boolean =>
  /^(project_id|rich_projects|projects!project_id)$/.test(text.replaceAll(/!(inner|left)/g, '')) &&
  relation?.columns.some(([name]) => name === 'code') === true &&
  (items.length === 0 ||
    items.some(item => /^\*|code/.test(item)) ||
    sent.query.some(([name, text]) => name.startsWith(prefix) && /code/.test(`${name}=${text}`)))

/** Whether 12.0.2 supports the selection. */
function isAnswerable(sent: SentRequest): boolean {
  const levels = allLevels(levelsOf(sent))
  const isEmptyInside = (level: Level) =>
    level.embedded.some(one => one.items.length + one.embedded.length === 0 && (one.isSpread || level.prefix !== ''))
  const [root] = levels
  // For a function's result, 12.0.2 has no computed columns, and cannot group by a full row.
  if (isCall(sent) && root?.items.some(item => /label/.test(item) || (item === '*' && hasAggregates(root))))
    return false
  return !levels.some(
    level =>
      isGroupedAgain(level) ||
      isEmptyInside(level) ||
      isOfJson(level) ||
      isTwice(level) ||
      isUnconverted(level, sent) ||
      (level.embedded.length > 1 && level.embedded.some(isFunction)),
  )
}

/** 12.0.2 can filter and order a function's result only by its selected columns, without computed columns. */
function withSelected(sent: SentRequest): SentRequest {
  if (!isCall(sent)) return sent
  const level = levelsOf(sent)
  const select = sent.query.findLast(([name]) => name === 'select')?.[1]
  const names = level.relation?.columns.map(([name]) => name) ?? []
  const plain = queried(sent, ([name, text]) => !/^(order|(not\.)?(and|or))$/.test(name) || !/label/.test(text))
  const remaining = queried(plain, ([name]) => name.replace(/->.*/, '') !== 'label')
  if (select === undefined || level.items.includes('*')) return remaining
  const used = names.filter(
    name =>
      !level.items.includes(name) &&
      remaining.query.some(
        ([key, text]) =>
          key.replace(/->.*/, '') === name || (/^(order|(not\.)?(and|or))$/.test(key) && text.includes(name)),
      ),
  )
  if (used.length === 0) return remaining
  const more = used.filter(name => name !== 'label')
  return {
    ...remaining,
    query: remaining.query.map(one => (one[0] === 'select' ? ['select', [one[1], ...more].join()] : one)),
  }
}

const isHandled = (sent: SentRequest): boolean => {
  const { columns = [] } = levelsOf(sent).relation ?? {}
  return (
    !isCall(sent) &&
    !isWrite(sent) &&
    !sent.query.some(([name]) => name === 'select') &&
    !columns.some(([, type]) => type === 'code')
  )
}

function isRecords(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return [value].flat().every(row => typeof row === 'object' && row !== null && !Array.isArray(row))
  } catch {
    return false
  }
}

const ofOneRow = /^\/rpc\/(one_project|null_row|note_it|several|swap|one_out|one_pair)$/
const isHandler = /^\/rpc\/(page|download|anything)$/
/** A list with an invalid value for a domain with conversions. 12.0.2 compares it without conversion. */
const unconvertible = /(^|code\.(not\.)?)in\.\((?!T\d+(,T\d+)*\))/

const unordered = /^(json|point|xml)$/
/** Whether this order is possible for the returned rows of a write. */
const isOrderable = (sent: SentRequest, order: string): boolean =>
  order.split(',').every(term => {
    if (hasAggregates(levelsOf(sent))) return false
    const type = levelsOf(sent).relation?.columns.find(
      ([name]) => name === term.replace(/(\.(asc|desc|nullsfirst|nullslast))*$/, ''),
    )?.[1]
    return type !== undefined && !unordered.test(type)
  })

const changes: readonly ((sent: SentRequest) => SentRequest)[] = [
  withSelected,
  // An empty selection selects all columns, without conversions.
  sent => queried(sent, ([name, text]) => name !== 'select' || /^(\*(?=,|$)|\.\.\.|[\p{L}\p{N}_"$ ])/u.test(text)),
  // Each server's planner estimates its own statement. For writes, the estimate also depends on rolled back rows.
  sent =>
    relations[sent.path.slice(1)]?.isWritten !== true &&
    sent.query.every(
      ([name, text]) => /^(order|limit|offset)$/.test(name) || (name === 'select' && !/[(.]/.test(text)),
    ) &&
    !isCall(sent) &&
    sent.method === 'GET'
      ? sent
      : preferring(sent, one => one.replace(/^count=(planned|estimated)$/, 'count=exact')),
  // For an embedding, 12.0.2 also counts all rows of a view in a to-one relationship, and rows outside of the page.
  sent =>
    sent.query.some(([name, text]) => /client_projects|!inner.*\(\)/.test(text) || /\.(limit|offset)$/.test(name))
      ? preferring(sent, one => (one.startsWith('count=') ? undefined : one))
      : sent,
  // A view has several rows for a to-one embedding. Their order is random, and so are the rows on a page.
  sent =>
    sent.query.some(([name, text]) => name === 'select' && /client_projects/.test(text))
      ? {
          ...queried(sent, ([name]) => !/^(order|limit|offset)$/.test(name)),
          headers: without(sent.headers, 'Range'),
        }
      : sent,
  // A handler for any element receives only full rows without conversions. A handler for a relation receives only the
  // relation's rows.
  sent =>
    /list|html/.test(sent.headers.Accept ?? '') && !isHandled(sent)
      ? { ...sent, headers: without(sent.headers, 'Accept') }
      : sent,
  // In 12.0.2, CSV of rows with conversions has the names of other columns.
  sent =>
    /csv/i.test(sent.headers.Accept ?? '') && (isCall(sent) || isWrite(sent))
      ? { ...sent, headers: without(sent.headers, 'Accept') }
      : sent,
  // If a page or filter omits a handler's value, 12.0.2 still counts it. With HEAD, it also counts the value of one
  // row.
  sent => (isHandler.test(sent.path) ? { ...sent, query: [], headers: without(sent.headers, 'Range') } : sent),
  sent => (sent.method === 'HEAD' && ofOneRow.test(sent.path) ? { ...sent, method: 'GET' } : sent),
  sent =>
    queried(
      sent,
      ([name, text]) => !unconvertible.test(/(^|\.)(code|and|or)$/.test(name) ? text.replace(/^not\./, '') : ''),
    ),
  // With a time zone, 12.0.2 accepts invalid preferences.
  sent =>
    /handling=strict/.test(sent.headers.Prefer ?? '')
      ? preferring(sent, one => (one.startsWith('timezone=') ? undefined : one))
      : sent,
  // A body without names is ignored if all parameters are optional.
  sent =>
    isCall(sent) &&
    !/_body/.test(sent.path) &&
    /^(text\/(plain|xml)|application\/octet-stream)$/.test(sent.headers['Content-Type'] ?? '')
      ? { ...sent, headers: { ...sent.headers, 'Content-Type': 'application/json' } }
      : sent,
  // JSON is not parsed if `columns` names its keys.
  sent => (isRecords(sent.body ?? '') ? sent : queried(sent, ([name]) => name !== 'columns')),
  // JSON values other than strings reach a function as strings.
  sent =>
    isOfValues(sent) && /^\/rpc\/(echo|json_args)$/.test(sent.path)
      ? {
          ...queried(sent, ([name]) => !/^(a|b|doc)$/.test(name)),
          body: sent.body?.replaceAll(/(^|&)(a|b|doc)=[^&]*/g, '').replace(/^&/, ''),
        }
      : sent,
  // 12.0.2 returns an error without a code for a malformed page of an embedding.
  sent =>
    queried(
      sent,
      ([name, text]) =>
        !/\.(limit|offset)$/.test(name) || (/^ *\d+ *$/.test(text) && !(/limit/.test(name) && Number(text) === 0)),
    ),
  // A write has no order, so its page would be random.
  sent =>
    isWrite(sent)
      ? queried(
          sent,
          ([name, text]) => !/\.(order|limit|offset)$/.test(name) && (name !== 'order' || isOrderable(sent, text)),
        )
      : sent,
]

/** CSV of a call that is malformed or has no columns. 12.0.2 reports other faults first. */
const isBadCsv = (sent: SentRequest): boolean => {
  const lines = (sent.body ?? '').replace(/\r?\n$/, '').split(/\r?\n/)
  const widths = new Set(lines.map(line => line.split(',').length))
  return isCall(sent) && sent.headers['Content-Type'] === 'text/csv' && (lines[0] === '' || widths.size > 1)
}

/** The request in the form for 12.0.2. Undefined if the request is omitted. */
export function sendable(sent: SentRequest): SentRequest | undefined {
  const changed = changes.reduce((one, change) => change(one), sent)
  return isAnswerable(changed) && !isBadCsv(changed) ? changed : undefined
}
