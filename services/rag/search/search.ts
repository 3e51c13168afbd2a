/** One search: its statements, from what has been prepared, and what comes of their rows. */
import type { Connection } from '../../postgres/connection.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import type { Step } from '../../postgres/run.ts'
import type { Filter } from '../request/filter.ts'
import { conditionOf } from './conditions.ts'
import { fuse } from './fuse.ts'
import type { LexicalSearch } from './lexical-interface.ts'
import { Distinct, type Hit, hitKey, mergeLists } from './lists.ts'
import { Parameters } from './parameters.ts'
import { beginStep, moreSettings, rowsStep, runSteps, settingsStep, type TextRow } from './session.ts'
import type { Sizes } from './sizes.ts'
import { shownTable } from './table.ts'
import type { SearchableTable } from './tables.ts'
import type { FoundDocument } from './types.ts'
import { type Size, type VectorPlan, vectorSql } from './vector-arm.ts'

/** What a search of one table consists of; without a plan the vector arm is off. */
export type TableSearch = {
  readonly table: SearchableTable<unknown>
  readonly size: Size
  readonly plan: VectorPlan | undefined
  readonly lexical: LexicalSearch | undefined
}

export type Search = {
  readonly tables: readonly TableSearch[]
  readonly filter: Filter | undefined
  /** undefined: the vector arm is off. */
  readonly vector: readonly number[] | undefined
  readonly vectorWeight: number
  readonly minSimilarity: number
  /** How many documents are wanted. */
  readonly wanted: number
  readonly sizes: Sizes
}

/** Of each list that is fused. */
const leastDepth = 100
/** Documents that are the same are merged, hence some more rows than documents. */
const spare = 5

type Statement = { readonly text: string; readonly values: readonly string[] }

function vectorStatement(
  search: Search,
  { table }: TableSearch,
  plan: VectorPlan,
  limit: number,
  hasTexts: boolean,
): Statement {
  const parameters = new Parameters()
  const condition = conditionOf(table.described.table, table.filter, search.filter, parameters)
  const text = vectorSql(table.described, plan, search.vector ?? [], condition, parameters, { limit, hasTexts })
  return { text, values: parameters.values }
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

/** Rows of the vector arm: row_key, score, similarity, and with texts id and content. */
const similarityOf = (row: TextRow): number => Number(row[2])

/**
 * Rows near the vector only: one statement for each table gives their texts as well.
 * @throws DatabaseError, ConnectionFailure
 */
export async function searchByVector(connection: Connection, search: Search): Promise<readonly FoundDocument[]> {
  for (let limit = 2 * search.wanted + spare; ; limit *= 4) {
    const found = await nearestDocuments(connection, search, limit)
    if (found.documents.length >= search.wanted || found.isAll) return found.documents
  }
}

async function nearestDocuments(connection: Connection, search: Search, limit: number) {
  const steps = search.tables.flatMap(one => [
    settingsStep(settingsOf(one.plan)),
    stepOf(vectorStatement(search, one, one.plan ?? exact, limit, true)),
  ])
  const results = [...(await runSteps(connection, steps))]
  for (const [place, one] of search.tables.entries()) {
    const rows = results[place] ?? []
    if (one.plan?.kind !== 'approximate' || rows.length >= limit) continue
    const exactStep = stepOf(vectorStatement(search, one, exact, limit, true))
    const [again = []] = await runSteps(connection, [settingsStep(), exactStep])
    results[place] = again
    learn(search, one, again.length, limit)
  }
  const rowsOf = (hit: Hit) => results[hit.table]?.find(row => row[0] === hit.row)
  const distinct = new Distinct()
  for (const hit of mergeLists(results.map((rows, table) => vectorHits(rows, table, search)))) {
    const row = rowsOf(hit)
    const table = search.tables[hit.table]
    if (row !== undefined && table !== undefined) distinct.add(documentOf(table, row[3], row[4], hit.score))
  }
  return { documents: distinct.documents, isAll: results.every(rows => rows.length < limit) }
}

const exact: VectorPlan = { kind: 'exact' }
const settingsOf = (plan: VectorPlan | undefined) => (plan?.kind === 'approximate' ? plan.settings : [])

const vectorHits = (rows: readonly TextRow[], table: number, { minSimilarity }: Search): readonly Hit[] =>
  rows
    .filter(row => minSimilarity === 0 || similarityOf(row) >= minSimilarity)
    .map(row => ({ table, row: row[0] ?? '', score: Number(row[1]), comparable: similarityOf(row) }))

const lexicalHits = (rows: readonly TextRow[], table: number): readonly Hit[] =>
  rows.map(row => ({ table, row: row[0] ?? '', score: Number(row[1]), comparable: Number(row[1]) }))

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

/** That fewer rows match than a list may have is worth remembering: the next search with this filter is exact at once. */
function learn({ sizes, filter }: Search, { table }: TableSearch, rows: number, limit: number): void {
  if (rows >= limit) return
  const parameters = new Parameters()
  const condition = conditionOf(table.described.table, table.filter, filter, parameters)
  sizes.learn(table.described, condition, parameters, rows)
}

/**
 * Both arms, or words only: their rows in one round trip, and the texts of those that are returned in another, of the same snapshot.
 * @throws DatabaseError, ConnectionFailure
 */
export async function searchByBoth(connection: Connection, search: Search): Promise<readonly FoundDocument[]> {
  const limit = Math.max(leastDepth, 2 * search.wanted)
  const { vectorLists, lexicalLists } = await armLists(connection, search, limit)
  const [byVector, byWords] = [mergeLists(vectorLists), mergeLists(lexicalLists)]
  const ranked = rankedHits(search, byVector, byWords)
  const distinct = new Distinct()
  for (let from = 0; from < ranked.length && distinct.documents.length < search.wanted; ) {
    const to = from + (search.wanted - distinct.documents.length) + spare
    const hits = ranked.slice(from, to)
    const texts = await textsOf(connection, search, hits)
    for (const { hit, score } of hits) {
      const table = search.tables[hit.table]
      const row = texts.get(hitKey(hit))
      if (row !== undefined && table !== undefined) distinct.add(documentOf(table, row[1], row[2], score))
    }
    from = to
  }
  return distinct.documents
}

type Ranked = { readonly hit: Hit; readonly score: number }

/** With one list its scores are those of the documents. */
function rankedHits(
  { vector, vectorWeight }: Search,
  byVector: readonly Hit[],
  byWords: readonly Hit[],
): readonly Ranked[] {
  if (vector === undefined) return byWords.map(hit => ({ hit, score: hit.score }))
  const hits = new Map([...byWords, ...byVector].map(hit => [hitKey(hit), hit]))
  const fused = fuse([
    { keys: byVector.map(hitKey), weight: vectorWeight },
    { keys: byWords.map(hitKey), weight: 1 - vectorWeight },
  ])
  return fused.flatMap(({ key, score }) => {
    const hit = hits.get(key)
    return hit === undefined ? [] : [{ hit, score }]
  })
}

async function armLists(connection: Connection, search: Search, limit: number) {
  const steps: Step[] = [beginStep, settingsStep()]
  for (const one of search.tables) {
    if (one.plan !== undefined) {
      steps.push(...moreSettings(settingsOf(one.plan)), stepOf(vectorStatement(search, one, one.plan, limit, false)))
    }
    if (one.lexical !== undefined) steps.push(stepOf(lexicalStatement(search, one, one.lexical, limit)))
  }
  const results = [...(await runSteps(connection, steps))]
  const vectorLists: (readonly Hit[])[] = []
  const lexicalLists: (readonly Hit[])[] = []
  for (const [place, one] of search.tables.entries()) {
    let rows = one.plan === undefined ? [] : (results.shift() ?? [])
    if (one.plan?.kind === 'approximate' && rows.length < limit) {
      ;[rows = []] = await runSteps(connection, [stepOf(vectorStatement(search, one, exact, limit, false))])
      learn(search, one, rows.length, limit)
    }
    vectorLists.push(vectorHits(rows, place, search))
    lexicalLists.push(one.lexical === undefined ? [] : lexicalHits(results.shift() ?? [], place))
  }
  return { vectorLists, lexicalLists }
}

/** Rows row_key, id, content, by the keys of hits. */
async function textsOf(
  connection: Connection,
  search: Search,
  hits: readonly Ranked[],
): Promise<ReadonlyMap<string, TextRow>> {
  const places = [...new Set(hits.map(({ hit }) => hit.table))]
  const steps = places.flatMap(place => {
    const one = search.tables[place]
    const rows = hits.filter(({ hit }) => hit.table === place).map(({ hit }) => hit.row)
    return one === undefined ? [] : [stepOf(textStatement(search, one, rows))]
  })
  const results = await runSteps(connection, steps)
  return new Map(
    results.flatMap((rows, index) =>
      rows.map(row => [hitKey({ table: places[index] ?? 0, row: row[0] ?? '' }), row] as const),
    ),
  )
}

/** The filters stand here as well: the rows of a view may share what identifies them. */
function textStatement({ filter }: Search, { table }: TableSearch, rows: readonly string[]): Statement {
  const { described } = table
  const parameters = new Parameters()
  const condition = conditionOf(described.table, table.filter, filter, parameters)
  const { schema, name, rowExpression, idExpression, textColumn } = described.table
  const filters = [described.identity.find(rows, parameters), ...(condition === undefined ? [] : [condition])]
  const text = `SELECT ${rowExpression}, ${idExpression}, t.${quoteIdentifier(textColumn)}::pg_catalog.text
FROM ${quoteIdentifier(schema)}.${quoteIdentifier(name)} AS t WHERE ${filters.join(' AND ')}`
  return { text, values: parameters.values }
}
