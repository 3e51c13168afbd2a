/**
 * What PostgREST 12.0.2 is known to fail at, or leaves to the planner or to chance: the request is made without it, or is not made. Ours is asked the request as it was alone,
 * and has to give an answer or an error with a code.
 */
import { aggregate, allLevels, type Level, levelsOf } from './levels.ts'
import type { Parameter } from './query.ts'
import { type Asked, isWrite } from './request.ts'
import { relations } from './resources.ts'

type Headers = Readonly<Record<string, string>>

const isCall = ({ path }: Asked): boolean => path.startsWith('/rpc/')
const isOfValues = (asked: Asked): boolean =>
  asked.method !== 'POST' || /form/.test(asked.headers['Content-Type'] ?? '')
const without = (headers: Headers, name: string): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([known]) => known !== name))

function preferring(asked: Asked, change: (one: string) => string | undefined): Asked {
  const text = asked.headers.Prefer
  if (text === undefined) return asked
  const kept = text
    .split(',')
    .map(one => change(one.trim()))
    .filter(one => one !== undefined)
  return {
    ...asked,
    headers: kept.length === 0 ? without(asked.headers, 'Prefer') : { ...asked.headers, Prefer: kept.join(', ') },
  }
}

const queried = (asked: Asked, keep: (parameter: Parameter) => boolean): Asked => ({
  ...asked,
  query: asked.query.filter(keep),
})

const bare = (item: string): string => item.replace(/^("[^"]*"|[^":.(]+):(?!:)/, '')
const columnOf = (item: string): string => bare(item).replace(/(->|::|\.(sum|avg|count|max|min)\(\)).*$/s, '')
/** The key that a column is shown by. */
const keyOf = (item: string): string => {
  const plain = item.replace(/::.*$/, '')
  return /^("[^"]*"|[^":]+):/.exec(plain)?.[1] ?? /->>?([^->]+)$/.exec(plain)?.[1] ?? plain
}

/** An aggregate that is written as a column. */
const isCount = /^([^:]*:)?count$/

const hasAggregates = (level: Level): boolean =>
  level.items.some(item => aggregate.test(item) || isCount.test(item)) ||
  level.embedded.some(one => one.isSpread && hasAggregates(one))

/** Groups of embedded rows, and of what goes by the name of another column. */
function isGroupedAnew(level: Level): boolean {
  if (!hasAggregates(level)) return false
  const names = level.relation?.columns.map(([name]) => name) ?? []
  return (
    level.embedded.length > 0 ||
    (level.items.some(item => aggregate.test(item)) && level.items.some(item => isCount.test(item))) ||
    level.items.some(item => !aggregate.test(item) && /:code\b/.test(item)) ||
    level.items.some(item => !aggregate.test(item) && keyOf(item) !== columnOf(item) && names.includes(keyOf(item)))
  )
}

/** A spread that brings a column which is there already. */
const isTwice = ({ items, embedded }: Level): boolean =>
  embedded.some(
    one =>
      one.isSpread &&
      (one.embedded.length > 0 ||
        one.items.some(item => keyOf(item) === '*' || items.map(keyOf).includes(keyOf(item)) || items.includes('*'))),
  )

/** An aggregate of values with conversions. */
const isOfJson = ({ items }: Level): boolean => items.some(item => /^([^:]*:)?code\.(sum|avg|max|min)/.test(item))

const isFunction = ({ text }: Level): boolean => /^(payer|rich_projects|teller)$/.test(text)
/** Rows with conversions that are embedded by a column, a function or a view, which 12.0.2 does not convert. */
const isUnconverted = ({ text, relation, items, prefix }: Level, asked: Asked): boolean =>
  /^(project_id|rich_projects|projects!project_id)$/.test(text.replaceAll(/!(inner|left)/g, '')) &&
  relation?.columns.some(([name]) => name === 'code') === true &&
  (items.length === 0 ||
    items.some(item => /^\*|code/.test(item)) ||
    asked.query.some(([name, text]) => name.startsWith(prefix) && /code/.test(`${name}=${text}`)))

/** Whether 12.0.2 can answer what is selected. */
function isAnswerable(asked: Asked): boolean {
  const levels = allLevels(levelsOf(asked))
  const isEmptyInside = (level: Level) =>
    level.embedded.some(one => one.items.length + one.embedded.length === 0 && (one.isSpread || level.prefix !== ''))
  const [root] = levels
  // Of what a function returns it knows no computed columns, and groups no row as a whole.
  if (isCall(asked) && root?.items.some(item => /label/.test(item) || (item === '*' && hasAggregates(root))))
    return false
  return !levels.some(
    level =>
      isGroupedAnew(level) ||
      isEmptyInside(level) ||
      isOfJson(level) ||
      isTwice(level) ||
      isUnconverted(level, asked) ||
      (level.embedded.length > 1 && level.embedded.some(isFunction)),
  )
}

/** What a function returns is filtered and ordered by what is selected of it alone, and knows no computed columns. */
function withSelected(asked: Asked): Asked {
  if (!isCall(asked)) return asked
  const level = levelsOf(asked)
  const select = asked.query.findLast(([name]) => name === 'select')?.[1]
  const names = level.relation?.columns.map(([name]) => name) ?? []
  const plain = queried(asked, ([name, text]) => !/^(order|(not\.)?(and|or))$/.test(name) || !/label/.test(text))
  const kept = queried(plain, ([name]) => name.replace(/->.*/, '') !== 'label')
  if (select === undefined || level.items.includes('*')) return kept
  const used = names.filter(
    name =>
      !level.items.includes(name) &&
      kept.query.some(
        ([key, text]) =>
          key.replace(/->.*/, '') === name || (/^(order|(not\.)?(and|or))$/.test(key) && text.includes(name)),
      ),
  )
  if (used.length === 0) return kept
  const more = used.filter(name => name !== 'label')
  return { ...kept, query: kept.query.map(one => (one[0] === 'select' ? ['select', [one[1], ...more].join()] : one)) }
}

const isHandled = (asked: Asked): boolean => {
  const { columns = [] } = levelsOf(asked).relation ?? {}
  return (
    !isCall(asked) &&
    !isWrite(asked) &&
    !asked.query.some(([name]) => name === 'select') &&
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
/** A list with what is no value of a domain with conversions, which 12.0.2 compares as it is. */
const unconvertible = /(^|code\.(not\.)?)in\.\((?!T\d+(,T\d+)*\))/

const unordered = /^(json|point|xml)$/
/** Whether what a write returns can be ordered so. */
const isOrderable = (asked: Asked, order: string): boolean =>
  order.split(',').every(term => {
    if (hasAggregates(levelsOf(asked))) return false
    const type = levelsOf(asked).relation?.columns.find(
      ([name]) => name === term.replace(/(\.(asc|desc|nullsfirst|nullslast))*$/, ''),
    )?.[1]
    return type !== undefined && !unordered.test(type)
  })

const changes: readonly ((asked: Asked) => Asked)[] = [
  withSelected,
  // What selects nothing selects all columns, without their conversions.
  asked => queried(asked, ([name, text]) => name !== 'select' || /^(\*(?=,|$)|\.\.\.|[\p{L}\p{N}_"$ ])/u.test(text)),
  // Planners guess each of its own statement, and of what is written by what each has rolled back.
  asked =>
    relations[asked.path.slice(1)]?.isWritten !== true &&
    asked.query.every(
      ([name, text]) => /^(order|limit|offset)$/.test(name) || (name === 'select' && !/[(.]/.test(text)),
    ) &&
    !isCall(asked) &&
    asked.method === 'GET'
      ? asked
      : preferring(asked, one => one.replace(/^count=(planned|estimated)$/, 'count=exact')),
  // Of an embedding, 12.0.2 counts the rows of a view for what it is to one of, and what a page leaves of it.
  asked =>
    asked.query.some(([name, text]) => /client_projects|!inner.*\(\)/.test(text) || /\.(limit|offset)$/.test(name))
      ? preferring(asked, one => (one.startsWith('count=') ? undefined : one))
      : asked,
  // A view has several rows for what it is to one of: their order, and what is on a page of them, is chance.
  asked =>
    asked.query.some(([name, text]) => name === 'select' && /client_projects/.test(text))
      ? {
          ...queried(asked, ([name]) => !/^(order|limit|offset)$/.test(name)),
          headers: without(asked.headers, 'Range'),
        }
      : asked,
  // A handler of any element is given whole rows without conversions alone, one of a relation its rows.
  asked =>
    /list|html/.test(asked.headers.Accept ?? '') && !isHandled(asked)
      ? { ...asked, headers: without(asked.headers, 'Accept') }
      : asked,
  // CSV of rows with conversions has the names of other columns.
  asked =>
    /csv/i.test(asked.headers.Accept ?? '') && (isCall(asked) || isWrite(asked))
      ? { ...asked, headers: without(asked.headers, 'Accept') }
      : asked,
  // A page or a filter leaves a value out that a handler makes: 12.0.2 counts it, and with HEAD that of one row.
  asked => (isHandler.test(asked.path) ? { ...asked, query: [], headers: without(asked.headers, 'Range') } : asked),
  asked => (asked.method === 'HEAD' && ofOneRow.test(asked.path) ? { ...asked, method: 'GET' } : asked),
  asked =>
    queried(
      asked,
      ([name, text]) => !unconvertible.test(/(^|\.)(code|and|or)$/.test(name) ? text.replace(/^not\./, '') : ''),
    ),
  // With a time zone, 12.0.2 takes preferences for valid that are none.
  asked =>
    /handling=strict/.test(asked.headers.Prefer ?? '')
      ? preferring(asked, one => (one.startsWith('timezone=') ? undefined : one))
      : asked,
  // A body without names is dropped where all parameters are optional.
  asked =>
    isCall(asked) &&
    !/_body/.test(asked.path) &&
    /^(text\/(plain|xml)|application\/octet-stream)$/.test(asked.headers['Content-Type'] ?? '')
      ? { ...asked, headers: { ...asked.headers, 'Content-Type': 'application/json' } }
      : asked,
  // JSON is not read where columns names its keys.
  asked => (isRecords(asked.body ?? '') ? asked : queried(asked, ([name]) => name !== 'columns')),
  // Values of JSON that are no texts reach a function as texts.
  asked =>
    isOfValues(asked) && /^\/rpc\/(echo|json_args)$/.test(asked.path)
      ? {
          ...queried(asked, ([name]) => !/^(a|b|doc)$/.test(name)),
          body: asked.body?.replaceAll(/(^|&)(a|b|doc)=[^&]*/g, '').replace(/^&/, ''),
        }
      : asked,
  // 12.0.2 answers a malformed page of an embedding without a code.
  asked =>
    queried(
      asked,
      ([name, text]) =>
        !/\.(limit|offset)$/.test(name) || (/^ *\d+ *$/.test(text) && !(/limit/.test(name) && Number(text) === 0)),
    ),
  // A write is not ordered, and what a page of it would be is not known.
  asked =>
    isWrite(asked)
      ? queried(
          asked,
          ([name, text]) => !/\.(order|limit|offset)$/.test(name) && (name !== 'order' || isOrderable(asked, text)),
        )
      : asked,
]

/** CSV of a call that is malformed or has no columns: other faults are reported first. */
const isBadCsv = (asked: Asked): boolean => {
  const lines = (asked.body ?? '').replace(/\r?\n$/, '').split(/\r?\n/)
  const widths = new Set(lines.map(line => line.split(',').length))
  return isCall(asked) && asked.headers['Content-Type'] === 'text/csv' && (lines[0] === '' || widths.size > 1)
}

/** The request as 12.0.2 can be asked for it; undefined where it can not. */
export function askable(asked: Asked): Asked | undefined {
  const changed = changes.reduce((one, change) => change(one), asked)
  return isAnswerable(changed) && !isBadCsv(changed) ? changed : undefined
}
