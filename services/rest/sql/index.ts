/**
 * Renders a plan as SQL statements. Each main statement returns one row: total, rows, location, headers, status,
 * updated, body. So one round trip returns everything that the response needs. The body is in binary, because the
 * service passes its bytes on. If the body is streamed, the first result row has only the body's opening, and each
 * later result row has one body row.
 */
import { keysetSql } from '../keyset/sql.ts'
import type { Delivery } from '../plan/delivery.ts'
import type { Count, Keyset, Plan, ReadNode } from '../plan/types.ts'
import { bodySql, type RowBody, type Rows, rowBodySql } from './body.ts'
import { callSql, isScalar } from './call.ts'
import { countableSql, hasAggregates, selectSql, sourceSql } from './read.ts'
import { limitSql, type Statement, StatementWriter } from './statement.ts'
import { locationSql, writeSql } from './write.ts'

export type { Statement } from './statement.ts'

export type Rendered = {
  /** A write whose rows are not returned. It runs before the main statement, and its command tag has the count. */
  readonly write: Statement | undefined
  readonly main: Statement
  /** EXPLAIN of the rows to be counted. The total is its estimate. */
  readonly estimate: Statement | undefined
  /** Whether the main statement is an EXPLAIN. The body is then EXPLAIN's rows. */
  readonly isExplain: boolean
  /** The separator of the body's rows, and the body's end, if the body is streamed row by row. */
  readonly rowBody: Pick<RowBody, 'separator' | 'closing'> | undefined
}

const setting = (name: string) => `nullif(current_setting('${name}', true), '')`
const settings = `${setting('response.headers')} AS headers, ${setting('response.status')} AS status`

/**
 * An unknown column may be an aggregate of the row, such as `count`: Postgres accepts a function of a row in the form
 * of a column (Postgres manual, section 8.16.5).
 */
const mayBeAggregate = (item: ReadNode['select'][number]): boolean =>
  item.kind === 'column' && item.field.name !== '*' && item.field.type === undefined

/**
 * Whether the total needs a separate count. A page or a grouped result needs one, because it does not contain all rows.
 */
const takesCount = (node: ReadNode): boolean =>
  node.range.offset > 0 || node.range.limit !== undefined || hasAggregates(node) || node.select.some(mayBeAggregate)

function totalSql(
  writer: StatementWriter,
  count: Count | undefined,
  node: ReadNode,
  from: string,
  maximumRows: number | undefined,
): string {
  if (count === undefined || count === 'planned') return 'NULL::int8'
  if (!takesCount(node)) return 'count(*)'
  const limit = count === 'estimated' && maximumRows !== undefined ? ` LIMIT ${limitSql(writer, maximumRows + 1)}` : ''
  return `(SELECT count(*) FROM (${countableSql(writer, node, from)}${limit}) AS rst_counted)`
}

function estimateOf(count: Count | undefined, node: ReadNode): Statement | undefined {
  if (count === undefined || count === 'exact') return undefined
  const writer = new StatementWriter()
  return { text: `EXPLAIN (FORMAT JSON) ${countableSql(writer, node, sourceSql(node))}`, values: writer.values }
}

function explained(text: string, { body }: Plan): string {
  const { explain } = body
  if (explain === undefined) return text
  const options = [
    `FORMAT ${explain.format === 'json' ? 'JSON' : 'TEXT'}`,
    ...explain.options.map(name => name.toUpperCase()),
  ]
  return `EXPLAIN (${options.join(', ')}) ${text}`
}

const rowsOf: Rows = { scalar: false, shown: 'all' }

/** The rows and the response. `sources` ends with rst_source, whose rows are counted. */
function rowsStatement(
  sources: { readonly before: string; readonly source: string },
  { total, rows }: { readonly total: string; readonly rows: string },
  completeBody: string,
  rowBody: RowBody | undefined,
  isMade: boolean,
): string {
  const { before, source } = sources
  const head = (from: string, body: string) =>
    `SELECT ${total} AS total, ${rows} AS rows, NULL::text[] AS location, ${settings}, NULL::text AS updated, ${body} AS body FROM ${from}`
  if (rowBody === undefined)
    return `WITH ${before}rst_source AS (${source}) ${head('rst_source AS rst_rows', completeBody)}`
  const { opening, row } = rowBody
  const each = (text: string, from: string) => `SELECT NULL, NULL, NULL, NULL, NULL, NULL, ${text} FROM ${from}`
  // MATERIALIZED: Postgres computes all rows, or the text of all rows, before it sends the first row.
  return isMade
    ? `WITH ${before}rst_source AS (${source}), rst_made AS MATERIALIZED (SELECT ${row} AS body FROM rst_source AS rst_rows) ` +
        `${head('rst_made', opening)} UNION ALL ${each('body', 'rst_made')}`
    : `WITH ${before}rst_source AS MATERIALIZED (${source}) ` +
        `${head('rst_source', opening)} UNION ALL ${each(row, 'rst_source AS rst_rows')}`
}

function readStatement(plan: Extract<Plan, { kind: 'read' }>, delivery: Delivery): Rendered {
  const { keyset } = plan
  if (keyset !== undefined) return pageStatement({ ...plan, keyset })
  const writer = new StatementWriter()
  const from = sourceSql(plan.read)
  const source = selectSql(writer, plan.read, from)
  const total = totalSql(writer, plan.count, plan.read, from, plan.maximumRows)
  const rowBody = delivery === 'whole' ? undefined : rowBodySql(plan.body)
  const body = bodySql(plan.body, rowsOf)
  const text = rowsStatement(
    { before: '', source },
    { total, rows: 'count(*)' },
    body,
    rowBody,
    delivery === 'made rows',
  )
  return {
    write: undefined,
    main: { text: explained(text, plan), values: writer.values },
    estimate: estimateOf(plan.count, plan.read),
    isExplain: plan.body.explain !== undefined,
    rowBody,
  }
}

function pageStatement(plan: Extract<Plan, { kind: 'read' }> & { keyset: Keyset }): Rendered {
  const writer = new StatementWriter()
  const text = keysetSql(writer, plan, settings)
  return {
    write: undefined,
    main: { text: explained(text, plan), values: writer.values },
    estimate: estimateOf(plan.count, plan.read),
    isExplain: plan.body.explain !== undefined,
    rowBody: undefined,
  }
}

type WritePlan = Extract<Plan, { kind: 'write' }>

/** How many rows of an upsert existed before. */
const updatedSql = ({ write }: WritePlan): string => (merges(write) ? setting('rst.updated') : 'NULL::text')

const merges = (write: WritePlan['write']): boolean =>
  write.kind === 'insert' && write.onConflict?.resolution === 'merge'

/** Like `updatedSql`, but counts only returned rows, for a response that omits some rows. */
const updatedOfShownSql = ({ write }: WritePlan): string =>
  merges(write)
    ? `(coalesce(${setting('rst.updated')}, '0')::int8 + count(*) - (SELECT count(*) FROM rst_source))::text`
    : 'NULL::text'

/** Rows that are only counted are not materialized: materializing them would make a bulk insert 10 % slower. */
function bareWrite(plan: WritePlan): Rendered {
  const writer = new StatementWriter()
  const write = { text: writeSql(writer, plan, false), values: writer.values }
  const text = `SELECT NULL::int8 AS total, NULL::int8 AS rows, NULL::text[] AS location, ${settings}, ${updatedSql(plan)} AS updated, '' AS body`
  return { write, main: { text, values: [] }, estimate: undefined, isExplain: false, rowBody: undefined }
}

function writeStatement(plan: WritePlan): Rendered {
  if (plan.wants === 'minimal' && plan.body.explain === undefined) {
    return bareWrite(plan)
  }
  const writer = new StatementWriter()
  const source = writeSql(writer, plan, true)
  const location = locationSql(writer, plan)
  const isShown = plan.wants === 'representation'
  const rows = isShown ? `(${selectSql(writer, plan.read, sourceSql(plan.read, 'rst_source'))})` : 'rst_source'
  const text =
    `WITH rst_source AS (${source}) SELECT ${plan.countsExactly ? 'count(*)' : 'NULL::int8'} AS total, count(*) AS rows, ${location} AS location, ` +
    `${settings}, ${isShown ? updatedOfShownSql(plan) : updatedSql(plan)} AS updated, ${bodySql(plan.body, rowsOf)} AS body FROM ${rows} AS rst_rows`
  return {
    write: undefined,
    main: { text: explained(text, plan), values: writer.values },
    estimate: undefined,
    isExplain: plan.body.explain !== undefined,
    rowBody: undefined,
  }
}

/**
 * A function that does not return a set has one row. Its embeddings may have several rows: through a view, or through a
 * function that is declared to return one row.
 */
function shownOf({ routine, read }: Extract<Plan, { kind: 'call' }>): Rows['shown'] {
  if (routine.returnsSet) return 'all'
  return read.select.some(item => item.kind === 'embedded' && item.toOne) ? 'first' : 'only'
}

function callStatement(plan: Extract<Plan, { kind: 'call' }>, delivery: Delivery): Rendered {
  const writer = new StatementWriter()
  const call = callSql(writer, plan)
  const from = sourceSql(plan.read, 'rst_call')
  const { returnsSet } = plan.routine
  const shown = shownOf(plan)
  const found = totalSql(writer, plan.count, plan.read, from, plan.maximumRows)
  const total = shown === 'first' && plan.count !== undefined ? `least(${found}, 1)` : found
  // A function that does not return a set has one value, even after filters.
  const rows = returnsSet ? 'count(*)' : '1'
  const source = selectSql(writer, plan.read, from)
  const rowBody = delivery === 'whole' ? undefined : rowBodySql(plan.body)
  const completeBody = bodySql(plan.body, { scalar: isScalar(plan), shown })
  const sources = { before: `rst_call AS (${call}), `, source }
  const text = rowsStatement(sources, { total, rows }, completeBody, rowBody, delivery === 'made rows')
  return {
    write: undefined,
    main: { text: explained(text, plan), values: writer.values },
    estimate: undefined,
    isExplain: plan.body.explain !== undefined,
    rowBody,
  }
}

/** `delivery`: how the rows are returned; default: as one value. */
export function render(plan: Plan, delivery: Delivery = 'whole'): Rendered {
  switch (plan.kind) {
    case 'read':
      return readStatement(plan, delivery)
    case 'write':
      return writeStatement(plan)
    case 'call':
      return callStatement(plan, delivery)
  }
}
