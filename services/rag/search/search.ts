/** Runs the statements of one search on prepared tables, and merges their rows. */
import type { Parameter } from '../../../wire/messages.ts'
import type { Connection } from '../../postgres/connection.ts'
import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { Step } from '../../postgres/run.ts'
import type { Filter } from '../request/filter.ts'
import { conditionOf } from './conditions.ts'
import { fuse, type Ranked } from './fuse.ts'
import type { LexicalSearch } from './lexical-interface.ts'
import { Distinct, type Hit, hitKey, mergeLists } from './lists.ts'
import { Parameters } from './parameters.ts'
import {
  beginStep,
  commitStep,
  filtered,
  moreSettings,
  rowsStep,
  runSteps,
  settingsStep,
  type TextRow,
} from './session.ts'
import type { Sizes } from './sizes.ts'
import { shownTable } from './table.ts'
import type { SearchableTable } from './tables.ts'
import type { FoundDocument } from './types.ts'
import {
  indexPlan,
  type Size,
  settingsOfExact,
  type VectorPlan,
  vectorParameter,
  vectorPlan,
  vectorSql,
} from './vector-arm.ts'

/** The prepared input for the search of one table. */
export type TableSearch = {
  readonly table: SearchableTable<unknown>
  readonly size: Size
  readonly lexical: LexicalSearch | undefined
}

export type Search = {
  readonly tables: readonly TableSearch[]
  readonly filter: Filter | undefined
  /** undefined: the search uses only words. */
  readonly vector: ArrayLike<number> | undefined
  readonly vectorWeight: number
  readonly minSimilarity: number
  /** The number of requested documents. */
  readonly wanted: number
  readonly sizes: Sizes
  /** The timeout of each statement. */
  readonly timeoutMs: number
  /** Whether to skip exact scans of tables that have an index. */
  readonly isIndexOnly: boolean
  /** Called before an exact scan of a table that has an index. */
  readonly onExact: () => void
}

/** The minimum length of each list that is fused. */
const leastDepth = 100
/** Equal documents are merged, so the search reads some more rows than documents. */
const spare = 5
/** The maximum number of rows, even if many rows belong to one document. */
const mostRows = 10_000

type Statement = { readonly text: string; readonly values: readonly Parameter[] }

function vectorStatement(
  search: Search,
  { table }: TableSearch,
  plan: VectorPlan,
  limit: number,
  hasTexts: boolean,
): Statement {
  const { vector = [] } = search
  const parameters = new Parameters(1)
  const conditionWith = (requested: Filter | undefined) =>
    conditionOf(table.described.table, table.filter, requested, parameters)
  const condition = conditionWith(search.filter)
  const indexed = plan.kind === 'approximate' && plan.index.isPartial ? conditionWith(undefined) : undefined
  const conditions = { condition, indexed }
  const text = vectorSql(table.described, plan, vector.length, conditions, { limit, hasTexts })
  return { text, values: [vectorParameter(vector, table.described.vector), ...parameters.values] }
}

function lexicalStatement(
  search: Search,
  { table, size }: TableSearch,
  lexical: LexicalSearch,
  limit: number,
): Statement {
  const parameters = new Parameters()
  const condition = conditionOf(table.described.table, table.filter, search.filter, parameters)
  const { sql } = lexical(condition, parameters, limit, size.matching)
  return { text: sql, values: parameters.values }
}

const stepOf = ({ text, values }: Statement): Step => rowsStep(text, values)

/** Columns of the vector arm's rows: row_key, score, similarity and accepted; with texts, also id and content. */
const similarityOf = (row: TextRow): number => Number(row[2])

/**
 * Searches only by the vector. One statement for each table also returns the texts.
 * @throws DatabaseError, ConnectionFailure
 */
export async function searchByVector(connection: Connection, search: Search): Promise<readonly FoundDocument[]> {
  for (let limit = 2 * search.wanted + spare; ; limit *= 4) {
    const found = await nearestDocuments(connection, search, limit)
    if (found.documents.length >= search.wanted || found.isAll || limit >= mostRows) return found.documents
  }
}

async function nearestDocuments(connection: Connection, search: Search, limit: number) {
  const first = search.tables.map(one => vectorStep(search, one, limit, true))
  const rowsOfSteps = await runSteps(
    connection,
    first.flatMap(({ plan, step }) => [
      settingsStep([...planning(search), ...settingsOf(plan)], search.timeoutMs),
      step,
    ]),
  )
  const results: Nearest[] = []
  for (const [index, one] of search.tables.entries()) {
    const rows = rowsOfSteps[index] ?? []
    results.push(await complete(connection, search, one, first[index]?.plan ?? exact, rows, limit, true))
  }
  const distinct = new Distinct()
  const rows = new Map<string, TextRow>()
  for (const [table, result] of results.entries()) {
    for (const row of result.rows) rows.set(hitKey(table, row[0] ?? ''), row)
  }
  for (const hit of mergeLists(results.map((result, table) => vectorHits(result.rows, table, search)))) {
    const row = rows.get(hit.key)
    const table = search.tables[hit.table]
    if (row !== undefined && table !== undefined) distinct.add(documentOf(table, row[4], row[5], hit.score))
  }
  // If a row is not similar enough, no later row is similar enough.
  const isOver = ({ rows: found, isAll }: Nearest) => isAll || found.some(row => !isSimilar(row, search))
  return { documents: distinct.documents, isAll: results.every(isOver) }
}

const planning = ({ tables }: Search) => (tables.some(({ size }) => size.isFiltered) ? filtered : [])

const exact: VectorPlan = { kind: 'exact' }
const settingsOf = (plan: VectorPlan) => (plan.kind === 'approximate' ? plan.settings : settingsOfExact)

function vectorStep(search: Search, one: TableSearch, limit: number, hasTexts: boolean) {
  const { described } = one.table
  const byIndex = search.isIndexOnly ? indexPlan(described, one.size, limit) : undefined
  const plan = byIndex ?? vectorPlan(described, one.size, limit)
  if (plan.kind === 'exact' && described.vector.indexes.length > 0) search.onExact()
  return { plan, step: stepOf(vectorStatement(search, one, plan, limit, hasTexts)) }
}

/** `isAll`: there are no further rows. */
type Nearest = { readonly rows: readonly TextRow[]; readonly isAll: boolean }

/**
 * Runs an exact search if an index has found too few rows. This happens if the filter accepts no rows near the vector,
 * or if the index does not contain all rows.
 */
async function complete(
  connection: Connection,
  search: Search,
  one: TableSearch,
  plan: VectorPlan,
  rows: readonly TextRow[],
  limit: number,
  hasTexts: boolean,
): Promise<Nearest> {
  if (plan.kind === 'exact') return { rows, isAll: rows.length < limit }
  const accepted = Number(rows[0]?.[3] ?? rows.length)
  if (plan.isFilterWithin) return { rows, isAll: true }
  if (accepted >= plan.needed) return { rows, isAll: false }
  search.onExact()
  const step = stepOf(vectorStatement(search, one, exact, limit, hasTexts))
  // The earlier settings may have ended with their transaction.
  const [all = []] = await runSteps(connection, [
    settingsStep([...planning(search), ...settingsOf(exact)], search.timeoutMs),
    step,
  ])
  recordSize(search, one, all.length, limit)
  return { rows: all, isAll: all.length < limit }
}

const isSimilar = (row: TextRow, { minSimilarity }: Search): boolean =>
  minSimilarity === 0 || similarityOf(row) >= minSimilarity

function hitOf(table: number, row: string, score: number, comparable: number): Hit {
  return { key: hitKey(table, row), table, row, score, comparable }
}

const vectorHits = (rows: readonly TextRow[], table: number, search: Search): readonly Hit[] =>
  rows.filter(row => isSimilar(row, search)).map(row => hitOf(table, row[0] ?? '', Number(row[1]), similarityOf(row)))

const lexicalHits = (rows: readonly TextRow[], table: number): readonly Hit[] =>
  rows.map(row => {
    const score = Number(row[1])
    return hitOf(table, row[0] ?? '', score, score)
  })

const documentOf = (
  { table }: TableSearch,
  id: string | null | undefined,
  content: string | null | undefined,
  score: number,
): FoundDocument => ({
  table: shownTable(table.described.table),
  id: id ?? '',
  content: content ?? '',
  score,
})

/**
 * Caches the number of rows if fewer rows match than the list may contain. Then the next search with this filter is
 * exact immediately.
 */
function recordSize({ sizes, filter }: Search, { table }: TableSearch, rows: number, limit: number): void {
  if (rows >= limit) return
  const parameters = new Parameters()
  const condition = conditionOf(table.described.table, table.filter, filter, parameters)
  sizes.record(table.described, condition, parameters, rows)
}

/**
 * Searches by words and vector, or by words only. One round trip finds the rows, and another reads the texts of the
 * returned rows from the same snapshot.
 * @throws DatabaseError, ConnectionFailure
 */
export async function searchByBoth(connection: Connection, search: Search): Promise<readonly FoundDocument[]> {
  const { tables, wanted } = search
  const { vectorLists, lexicalLists } = await armLists(connection, search, Math.max(leastDepth, 2 * wanted))
  const ranked = rankedHits(search, mergeLists(vectorLists), mergeLists(lexicalLists))
  const distinct = new Distinct()
  const mayRepeat = tables.length > 1 || tables.some(({ table }) => !table.described.identity.hasUniqueIds)
  if (!mayRepeat) {
    await addTexts(connection, search, ranked.slice(0, wanted), distinct, [commitStep])
    return distinct.documents
  }
  // If many rows are the same document, the second statement reads the texts of all rows. Otherwise, a rollback ends
  // the transaction.
  const first = wanted + spare
  await addTexts(connection, search, ranked.slice(0, first), distinct, [])
  if (distinct.documents.length < wanted)
    await addTexts(connection, search, ranked.slice(first), distinct, [commitStep])
  return distinct.documents
}

async function addTexts(
  connection: Connection,
  search: Search,
  hits: readonly Ranked[],
  distinct: Distinct,
  ending: readonly Step[],
): Promise<void> {
  const texts = await textsOf(connection, search, hits, ending)
  for (const { hit, score } of hits) {
    const table = search.tables[hit.table]
    const row = texts.get(hit.key)
    if (row !== undefined && table !== undefined) distinct.add(documentOf(table, row[1], row[2], score))
  }
}

/** If there is only one list, its scores are the documents' scores. */
const rankedHits = (
  { vector, vectorWeight }: Search,
  byVector: readonly Hit[],
  byWords: readonly Hit[],
): readonly Ranked[] =>
  vector === undefined
    ? byWords.map(hit => ({ hit, score: hit.score }))
    : fuse([
        { hits: byVector, weight: vectorWeight },
        { hits: byWords, weight: 1 - vectorWeight },
      ])

/** Disables sequential scans only for this statement, not for later statements of the transaction. */
const withSettings = ({ plan, step }: ReturnType<typeof vectorStep>): readonly Step[] =>
  plan.kind === 'approximate' ? [moreSettings(plan.settings), step, moreSettings(plan.after)] : [step]

async function armLists(connection: Connection, search: Search, limit: number) {
  const arms = search.tables.map(one => ({
    vector: search.vector === undefined ? undefined : vectorStep(search, one, limit, false),
    lexical: one.lexical === undefined ? undefined : stepOf(lexicalStatement(search, one, one.lexical, limit)),
  }))
  const steps = arms.flatMap(({ vector, lexical }) => [
    ...(vector === undefined ? [] : withSettings(vector)),
    ...(lexical === undefined ? [] : [lexical]),
  ])
  const results = [
    ...(await runSteps(connection, [beginStep, settingsStep(planning(search), search.timeoutMs), ...steps])),
  ]
  const vectorLists: (readonly Hit[])[] = []
  const lexicalLists: (readonly Hit[])[] = []
  for (const [index, one] of search.tables.entries()) {
    const { vector, lexical } = arms[index] ?? {}
    if (vector !== undefined) {
      const nearest = await complete(connection, search, one, vector.plan, results.shift() ?? [], limit, false)
      vectorLists.push(vectorHits(nearest.rows, index, search))
    }
    if (lexical !== undefined) lexicalLists.push(lexicalHits(results.shift() ?? [], index))
  }
  return { vectorLists, lexicalLists }
}

/** Returns rows with row_key, id and content, for the keys of the hits. */
async function textsOf(
  connection: Connection,
  search: Search,
  hits: readonly Ranked[],
  ending: readonly Step[],
): Promise<ReadonlyMap<string, TextRow>> {
  const tables = [...new Set(hits.map(({ hit }) => hit.table))]
  const steps = tables.flatMap(table => {
    const one = search.tables[table]
    const rows = hits.filter(({ hit }) => hit.table === table).map(({ hit }) => hit.row)
    return one === undefined ? [] : [stepOf(textStatement(search, one, rows))]
  })
  const results = await runSteps(connection, [...steps, ...ending])
  return new Map(
    results.flatMap((rows, index) => rows.map(row => [hitKey(tables[index] ?? 0, row[0] ?? ''), row] as const)),
  )
}

/** Repeats the filters, because several rows of a view may have the same identifier. */
function textStatement({ filter }: Search, { table }: TableSearch, rows: readonly string[]): Statement {
  const { described } = table
  const parameters = new Parameters()
  const condition = conditionOf(described.table, table.filter, filter, parameters)
  const { rowExpression, idExpression, textColumn } = described.table
  const filters = [described.identity.find(rows, parameters), ...(condition === undefined ? [] : [condition])]
  const text = `SELECT ${rowExpression}, ${idExpression}, t.${quoteIdentifier(textColumn)}::pg_catalog.text
FROM ${qualified(described.table)} AS t WHERE ${filters.join(' AND ')}`
  return { text, values: parameters.values }
}
