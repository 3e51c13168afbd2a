/**
 * `similarity_search`: the passages of a table that are nearest in meaning to a text. Vectors find the rows, and words
 * find the passages in these rows. The result has only one of several similar passages.
 */

import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { ProviderError } from '../../providers/errors.ts'
import type { Embedder } from '../../providers/types.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { type FoundRow, nearestRows, type Passage, passages, type RankedRow } from '../../retrieval/rank.ts'
import {
  foundRows,
  parseTableName,
  type Search,
  searchStatements,
  settingsStatement,
  type Table,
  type TableName,
  tableOf,
  tableStatement,
  type VectorColumn,
  vectorTablesStatement,
} from '../../retrieval/statements.ts'
import { estimateTokens } from '../../retrieval/tokens.ts'
import { columnWeights } from '../../retrieval/weights.ts'
import { fencedNames, nearestNames } from '../catalogue/names.ts'
import type { DatabaseSettings, McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { DatabaseAccess } from '../database/access.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { requiredText, text, toolInput } from './input.ts'
import { onDatabase } from './on-database.ts'
import { line, shortened } from './pages.ts'

type SimilaritySearchParts = {
  readonly entries: DatabaseEntries
  readonly access: DatabaseAccess
  /** Undefined if no provider is configured. */
  readonly embedder: Embedder | undefined
  readonly limits: McpSettings['limits']
}

const name = 'similarity_search'

/** The JSON Schema lists these values without a type, as in earlier versions. */
const oneOf = <const Values extends readonly string[]>(values: Values) => z.enum(values).meta({ type: undefined })

const input = toolInput({
  table_name: text({ maxLength: 260, description: 'table or schema.table' }).transform((written, context) => {
    const table = parseTableName(written)
    if (table !== undefined) return table
    context.addIssue('must be a table, or schema.table; put names with dots or blanks in double quotes')
    return z.NEVER
  }),
  query_text: requiredText({ minLength: 1, maxLength: 8_000 }),
  top_n: z.int().min(1).max(100).default(10).describe('Rows'),
  chunk_size_tokens: z.int().min(20).max(1_000).default(100),
  lambda: z.number().min(0).max(1).default(0.6).describe('1: relevance only, 0: variety only'),
  max_output_tokens: z.int().min(100).max(10_000).default(1_000),
  distance_metric: oneOf(['cosine', 'l2', 'inner_product']).default('cosine'),
  output_format: oneOf(['full', 'summary', 'ids_only']).default('full'),
})
const definition: ToolDefinition = {
  name,
  title: 'Similarity search',
  description:
    'Semantic search in a table with pgvector columns. Finds rows by meaning and returns their best passages. get_schema_info with vector_tables_only lists such tables.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

/** A refusal, with its text for the caller. */
type Refusal = { readonly problem: string }
const isRefusal = (one: object): one is Refusal => 'problem' in one

/** The result uses only this share of the token limit, because its tokens are estimated. */
const usedShare = 0.9
/** Tokens for the text around the passages. */
const tokensAround = 140 + fenceTokens
const summaryCharacters = 120
/** The maximum characters of one column, and of all columns. Text beyond them is not searched for passages. */
const mostCharacters = 40_000
const fewestCharacters = 1_000
const charactersOfAll = 400_000
const bytesPerCharacter = 4
/** Reads more candidates than rows. Otherwise, rows that match in one column could displace better matches. */
const candidatesPerRow = 4
const mostCandidates = 200

function optionsOf(args: JsonObject, resultTokens: number) {
  const { table_name: table, query_text: query, top_n: rows, ...more } = input.read(args)
  const { chunk_size_tokens: chunkTokens, lambda, distance_metric: metric, output_format: format } = more
  const maximumTokens = Math.min(usedShare * resultTokens - tokensAround, more.max_output_tokens)
  return { table, query, rows, chunkTokens, lambda, maximumTokens, metric, format }
}
type SearchOptions = ReturnType<typeof optionsOf>

export function similaritySearch({ entries, access, embedder, limits }: SimilaritySearchParts): Tool {
  async function tableNamed(
    wanted: TableName,
    database: DatabaseSettings,
    context: CallContext,
  ): Promise<Table | Refusal> {
    const [rows] = await access.read(database, [tableStatement(wanted)], context, name)
    const table = rows && tableOf(rows)
    if (table !== undefined && table.vectors.length > 0) {
      if (table.texts.length > 0) return table
      return { problem: 'table_name: this table has no text columns.' }
    }
    const [names] = await access.read(database, [vectorTablesStatement], context, name)
    const known = (names?.rows ?? []).flatMap(([one]) => one ?? [])
    const near = nearestNames([wanted.schema, wanted.name].filter(Boolean).join('.'), known)
    const listed = near.length > 0 ? near : known.slice(0, 5)
    const hint =
      listed.length === 0 ? ' No table has searchable vectors.' : ` Tables with vectors:\n${fencedNames(listed)}`
    if (table === undefined)
      return { problem: `table_name: there is no table ${shortened(wanted.name, 100)} for this role.${hint}` }
    const other = table.otherVectors.length === 0 ? '' : '; its columns of other vector types cannot be searched'
    return { problem: `table_name: this table has no vector or halfvec columns${other}.${hint}` }
  }

  async function found(search: Search, database: DatabaseSettings, context: CallContext): Promise<readonly FoundRow[]> {
    const statements = [settingsStatement(search), ...searchStatements(search)]
    const [, ...results] = await access.read(database, statements, context, name)
    return foundRows(search, results)
  }

  async function search(options: SearchOptions, database: DatabaseSettings, context: CallContext, model: Embedder) {
    const table = await tableNamed(options.table, database, context)
    if (isRefusal(table)) return toolError(table.problem)
    context.progress({ progress: 1, total: 3, message: 'Embedding the question' })
    const [vector = []] = await model.embed([options.query], 'query', context.signal)
    const columns = table.vectors.filter(({ dimensions }) => dimensions === undefined || dimensions === vector.length)
    if (columns.length === 0) return toolError(otherDimensions(table, vector.length, model))
    context.progress({ progress: 2, total: 3, message: 'Searching' })
    const limit = columns.length === 1 ? options.rows : Math.min(mostCandidates, candidatesPerRow * options.rows)
    const ofAll = charactersOfAll / (options.rows * table.texts.length)
    const ofAnswer = limits.resultBytes / (bytesPerCharacter * limit * columns.length * table.texts.length)
    const maximumCharacters = Math.floor(Math.min(mostCharacters, Math.max(fewestCharacters, ofAll), ofAnswer))
    const rows = await found(
      { table, columns, vector, metric: options.metric, limit, maximumCharacters },
      database,
      context,
    )
    const near = nearestRows(
      rows,
      columnWeights(columns.map(column => ({ ...column, sampleLengths: sampleOf(column, rows) }))),
      options.rows,
    )
    if (near.length === 0)
      return toolText(`${titleOf(database, table, options)}: no rows with a vector of ${vector.length} dimensions.`)
    return toolText(written(titleOf(database, table, options), options, near))
  }

  return {
    definition,
    ...(embedder === undefined && { isHidden: true }),
    scopeOf: () => 'mcp:read',
    call: async (args, context): Promise<Outcome<ToolResult>> => {
      const options = optionsOf(args, limits.resultTokens)
      if (embedder === undefined) return toolError('No embedding provider is configured: similarity search needs one.')
      try {
        return await onDatabase(entries, context, database => search(options, database, context, embedder))
      } catch (error) {
        if (error instanceof ProviderError) return toolError(`The question could not be embedded: ${error.message}.`)
        throw error
      }
    },
  }
}

const otherDimensions = (
  { schema, name: table, vectors }: Table,
  dimensions: number,
  { provider, model }: Embedder,
): string => {
  const has = vectors.map(column => `${schema}.${table}.${column.name} has ${column.dimensions} dimensions`)
  return `${provider}'s ${model} returns ${dimensions} dimensions, and no column has exactly ${dimensions}. Configure the model that filled the column.\n${fencedNames(has)}`
}

/**
 * Lengths of the texts whose column name is part of the vector column's name. They decide the vector column's weight.
 */
function sampleOf({ name: vector }: VectorColumn, rows: readonly FoundRow[]): readonly number[] {
  return rows.flatMap(({ texts }) =>
    texts.filter(({ column }) => vector.toLowerCase().includes(column.toLowerCase())).map(({ text }) => text.length),
  )
}

const titleOf = (
  { name: database }: DatabaseSettings,
  { schema, name: table }: Table,
  { metric }: SearchOptions,
): string => `Database: ${database}. ${schema}.${table} by ${metric} distance`

const distanceOf = ({ distance }: RankedRow): string => (Number.isFinite(distance) ? distance.toFixed(4) : 'unknown')
const longestKey = 200
const keyOf = ({ key }: RankedRow): string => shortened(key, longestKey)

function written(title: string, options: SearchOptions, rows: readonly RankedRow[]): string {
  if (options.format === 'ids_only') return withLines(title, rows, options)
  const found = passages(options.query, rows, options)
  if (found.length === 0) return `${withLines(title, rows, options)}\nThese rows have no text.`
  const shown = found.map(({ row, column, text }: Passage, index) => {
    const passageText = options.format === 'summary' ? shortened(text, summaryCharacters) : text
    return `${index + 1}. ${line([keyOf(row)])} ${column} (distance ${distanceOf(row)})\n${passageText}`
  })
  const from = new Set(found.map(({ row }) => row.key)).size
  return `${title}: ${found.length} passages of ${from} rows.\n\n${fenced(shown.join('\n\n'))}`
}

/** The rows with their keys. Truncates the list at the token limit. */
function withLines(title: string, rows: readonly RankedRow[], { maximumTokens }: SearchOptions): string {
  const lines = ['row\tdistance']
  let remaining = maximumTokens
  for (const row of rows) {
    const text = line([keyOf(row), distanceOf(row)])
    remaining -= estimateTokens(text) + 1
    if (remaining < 0) break
    lines.push(text)
  }
  const truncation =
    lines.length <= rows.length ? `\n${rows.length + 1 - lines.length} more rows: raise max_output_tokens.` : ''
  return `${title}: ${rows.length} rows.\n\n${lines.join('\n')}${truncation}`
}
