/** SQL of the lexical arm: reads terms and their frequencies, and ranks rows. */
import type { OwnStatement } from '../../../postgres/cells.ts'
import { qualified, quoteIdentifier } from '../../../postgres/quote.ts'
import { arrayLiteral } from '../filter-condition.ts'
import { ownName } from '../own-names.ts'
import type { Parameters } from '../parameters.ts'
import type { FilterCondition, SearchedTable } from '../types.ts'
import type { Access } from './access.ts'
import { lengthWeight, saturation } from './bm25.ts'
import type { WeightedTerm } from './candidates.ts'
import type { InvertedIndex, ParadeIndex, TextsearchIndex } from './indexes.ts'
import { anyClause, anyOf, type Clause } from './tsquery.ts'

/**
 * Returns a query's words as the index has them: in their basic form, without stop words, the most repeated word first.
 */
export const termsStatement = (configuration: string | undefined, query: string, limit: number): OwnStatement => ({
  text: `SELECT lexeme FROM unnest(to_tsvector(coalesce($1::regconfig, pg_catalog.get_current_ts_config()), $2::text)) AS w
ORDER BY cardinality(positions) DESC, positions[1] LIMIT ${limit}`,
  values: [configuration ?? null, query],
})

/**
 * Counts the rows that have each term, up to a limit. Without MATERIALIZED, the planner would read the table for a
 * count that ends early. The planner does not know the query in advance, so it uses the index.
 */
export const countsStatement = (
  table: SearchedTable,
  { vector }: InvertedIndex,
  lexemes: readonly string[],
  limit: number,
): OwnStatement => ({
  text: `SELECT (WITH m AS MATERIALIZED (SELECT FROM ${qualified(table)} AS t WHERE ${vector} @@ w.q) SELECT count(*) FROM (SELECT FROM m LIMIT ${limit}) AS c) AS rows
FROM unnest($1::tsquery[]) WITH ORDINALITY AS w (q, number) ORDER BY w.number`,
  values: [arrayLiteral(lexemes.map(lexeme => anyOf([lexeme])))],
})

type Ranking = {
  readonly clauses: readonly Clause[]
  readonly by: Access['by']
  readonly terms: readonly WeightedTerm[]
  readonly totalRows: number
  readonly averageLength: number
  /** The maximum number of rows to score. */
  readonly mostScored: number
}

/**
 * Scores the candidates by BM25. For each candidate, `setweight` marks the query's lexemes, `ts_filter` drops other
 * lexemes, and the statement counts the positions. The cost is the same for three terms and for thirty. Lexemes that
 * already had this weight are not among the terms, and add nothing. A row's length is its number of different lexemes,
 * which is in the head of the vector.
 */
export function rankedSql(
  table: SearchedTable,
  index: InvertedIndex,
  ranking: Ranking,
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
): string {
  const { by, terms, averageLength, mostScored } = ranking
  // The index cannot rank the rows of a single clause by their terms.
  const isPreselected = !index.isStored && by !== 'condition' && ranking.clauses.length > 1
  const source = !isPreselected
    ? candidates(table, index, ranking, condition, parameters)
    : preselected(table, index, ranking, condition, parameters, Math.max(leastPreselected, Math.ceil(spare * limit)))
  const lexemes = parameters.add(arrayLiteral(terms.map(({ lexeme }) => lexeme)), 'text[]')
  const weights = parameters.add(arrayLiteral(terms.map(({ weight }) => weight * (saturation + 1))), 'float8[]')
  const fixed = parameters.add(String(saturation * (1 - lengthWeight)), 'float8')
  const perLexeme = parameters.add(String((saturation * lengthWeight) / averageLength), 'float8')
  const weighted = ownName(table, 'marked')
  return `SELECT c.row_key, c.score FROM (
WITH scored AS MATERIALIZED (
SELECT ${table.rowExpression} AS row_key, (
  SELECT sum((${weights})[array_position(${lexemes}, l.lexeme)] * cardinality(l.positions) / (cardinality(l.positions) + ${fixed} + ${perLexeme} * length(d.${weighted})))
  FROM unnest(ts_filter(d.${weighted}, '{a}')) AS l) AS score
FROM ${source.from} CROSS JOIN LATERAL (SELECT setweight(${index.vector}, 'A', ${lexemes}) AS ${weighted} OFFSET 0) AS d
${source.where})
SELECT row_key, score FROM scored LIMIT ${mostScored}) AS c
WHERE c.score > 0 ORDER BY c.score DESC, c.row_key COLLATE "C" LIMIT ${limit}`
}

type Source = { readonly from: string; readonly where: string }

/** `IS TRUE` prevents the use of an index. */
const unindexed = (condition: string): string => `(${condition}) IS TRUE`

function conditionsOf(matched: string, by: Access['by'], condition: FilterCondition): string {
  const words = by === 'condition' ? unindexed(matched) : matched
  if (condition === undefined) return words
  return `${words} AND ${by === 'words' ? unindexed(condition) : `(${condition})`}`
}

function candidates(
  table: SearchedTable,
  { vector }: InvertedIndex,
  { clauses, by }: Ranking,
  condition: FilterCondition,
  parameters: Parameters,
): Source {
  const matched = `${vector} @@ (SELECT ${parameters.add(anyClause(clauses), 'tsquery')})`
  return { from: `${qualified(table)} AS t`, where: `WHERE ${conditionsOf(matched, by, condition)}` }
}

/**
 * The number of rows whose vectors are computed. It exceeds the limit, because the order by weights only approximates
 * the order of scores.
 */
const [leastPreselected, spare] = [40, 1.6]
/** If a larger share of the rows has a term, reading the term's postings is not worthwhile. */
const frequentPart = 0.05

/**
 * If a row's vector must be computed, only few rows can be scored. The statement selects them by the weights of their
 * terms, which the index knows. Each term is a separate scan for the candidates that have it.
 */
function preselected(
  table: SearchedTable,
  { vector }: InvertedIndex,
  { clauses, by, terms, totalRows }: Ranking,
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
): Source {
  const alone = new Set(clauses.flatMap(clause => (clause.length === 1 ? clause : [])))
  const needed = new Set(clauses.flat())
  const read = terms.filter(({ lexeme, rows }) => needed.has(lexeme) || rows <= frequentPart * totalRows)
  const queries = read.map(({ lexeme }) =>
    alone.has(lexeme) ? anyOf([lexeme]) : `${anyOf([lexeme])}&(${anyClause(clauses)})`,
  )
  const scanned = parameters.add(arrayLiteral(queries), 'tsquery[]')
  const weights = parameters.add(arrayLiteral(read.map(({ weight }) => weight)), 'float8[]')
  const [part, rowId] = [ownName(table, 'part'), ownName(table, 'place')]
  const chosen = `SELECT c.${part}, c.${rowId} FROM unnest(${scanned}, ${weights}) AS w (q, weight)
CROSS JOIN LATERAL (SELECT t.tableoid AS ${part}, t.ctid AS ${rowId} FROM ${qualified(table)} AS t WHERE ${conditionsOf(`${vector} @@ w.q`, by, condition)} OFFSET 0) AS c
GROUP BY c.${part}, c.${rowId} ORDER BY sum(w.weight) DESC, c.${part}, c.${rowId} LIMIT ${limit}`
  return {
    from: `(${chosen}) AS h JOIN ${qualified(table)} AS t ON t.ctid = h.${rowId} AND t.tableoid = h.${part}`,
    where: '',
  }
}

/**
 * Uses the extension pg_textsearch (version 1) as documented: the operator returns the negative score, and the index
 * returns rows in its order. The extension cannot be installed in the tests' environment, so tests check only the text.
 */
export function textsearchSql(
  table: SearchedTable,
  { name }: TextsearchIndex,
  query: string,
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
): string {
  const column = `t.${quoteIdentifier(table.textColumn)}`
  const distance = `${column} <@> to_bm25query(${parameters.add(query, 'text')}, ${parameters.add(name, 'text')})`
  const where = condition === undefined ? '' : `WHERE ${condition}\n`
  return `SELECT c.row_key, c.score FROM (
SELECT ${table.rowExpression} AS row_key, - (${distance}) AS score
FROM ${qualified(table)} AS t
${where}ORDER BY ${distance} LIMIT ${limit}) AS c
WHERE c.score > 0 ORDER BY c.score DESC, c.row_key COLLATE "C"`
}

/**
 * Uses the extension pg_search (ParadeDB) as documented: matches any of the words, with the index's tokenizer. The
 * extension cannot be installed in the tests' environment, so tests check only the text.
 */
export function paradeSql(
  table: SearchedTable,
  { key, isOld }: ParadeIndex,
  query: string,
  condition: FilterCondition,
  parameters: Parameters,
  limit: number,
): string {
  const text = parameters.add(query, 'text')
  const matched = isOld
    ? `${key} @@@ paradedb.match(${parameters.add(table.textColumn, 'text')}, ${text})`
    : `t.${quoteIdentifier(table.textColumn)} ||| ${text}`
  const score = isOld ? `paradedb.score(${key})` : `pdb.score(${key})`
  return `SELECT c.row_key, c.score FROM (
SELECT ${table.rowExpression} AS row_key, ${score}::float8 AS score
FROM ${qualified(table)} AS t
WHERE ${[matched, ...(condition === undefined ? [] : [condition])].join(' AND ')}
ORDER BY ${score} DESC LIMIT ${limit}) AS c
ORDER BY c.score DESC, c.row_key COLLATE "C"`
}
