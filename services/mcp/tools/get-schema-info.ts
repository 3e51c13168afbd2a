/**
 * `get_schema_info`: the structure of the database, level by level: schemas if there are many tables, then one schema's
 * tables, then columns. A search covers all levels. Shows only relations and columns that the role may use.
 */
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import type { Catalogue, Reading } from '../catalogue/index.ts'
import type { Overview } from '../catalogue/relations.ts'
import { columnSearch, matchesOf, wordsOf } from '../catalogue/search.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { DatabaseAccess } from '../database/access.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { optionalText, toolInput } from './input.ts'
import { onDatabase } from './on-database.ts'
import { cursorOf, pageOf, positionOf, type Section, start } from './pages.ts'
import { chooseRelations, type SchemaChoice, type SchemaQuestion } from './schema-choice.ts'
import { columnSections, compactSections, listSections, matchSections, summarySections } from './schema-text.ts'

type SchemaInfoParts = {
  readonly entries: DatabaseEntries
  readonly access: DatabaseAccess
  readonly catalogue: Catalogue
  readonly limits: McpSettings['limits']
}

const name = 'get_schema_info'

const input = toolInput({
  schema_name: optionalText({ maxLength: 200 }),
  table_name: optionalText({ maxLength: 400, description: 'Shows its columns' }),
  search: optionalText({ maxLength: 500, description: 'Words to find in names and comments of tables and columns' }),
  vector_tables_only: z.boolean().default(false),
  compact: z.boolean().default(false).describe('Names and types only'),
  include_partitions: z.boolean().default(false),
  include_extensions: z.boolean().default(false),
  cursor: optionalText({ maxLength: 100, description: 'From the previous page; repeat the other arguments' }),
})
type Arguments = ReturnType<typeof input.read>

const definition: ToolDefinition = {
  name,
  title: 'Schema information',
  description:
    'Lists tables, views and columns with types, keys, indexes and comments. Without arguments, returns everything of a small database, or the schemas of a large database. Then pass schema_name, table_name or search.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

/** Tokens for the text around the lines. */
const wordTokens = 200

/** The maximum size of the page cache, in characters. */
const cachedCharacters = 1_000_000

export function getSchemaInfo({ entries, access, catalogue, limits }: SchemaInfoParts): Tool {
  /** Pages by database and arguments. A page is valid while the overview is the same object. */
  const shown = new LRUCache<string, ShownPage>({
    maxSize: cachedCharacters,
    sizeCalculation: ({ head, text }, key) => key.length + head.length + text.length + 1,
  })

  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const wanted = input.read(args)
    return onDatabase(entries, context, async database => {
      const { cursor: _, ...filters } = args
      const question = { ...filters, database: database.name }
      const from = wanted.cursor === undefined ? start : positionOf(question, wanted.cursor)
      if (from === undefined)
        return toolError(
          'cursor: is invalid, or belongs to a call with other arguments. Repeat the call without cursor.',
        )
      const reading = { database, context, tool: name }
      const overview = await catalogue.overview(reading)
      const key = JSON.stringify([database.name, args])
      const known = shown.get(key)
      if (known?.overview === overview) return toolText(written(database.name, known))
      const answer = await answerOf(overview, wanted, reading)
      if (answer.kind === 'unknown') return toolError(answer.problem)
      const { text, next } = pageOf(answer.sections, from, limits.resultTokens - fenceTokens - wordTokens, atMostTokens)
      const page = { overview, head: answer.head, text, cursor: next && cursorOf(question, next) }
      shown.set(key, page)
      return toolText(written(database.name, page))
    })
  }

  async function answerOf(overview: Overview, wanted: Arguments, reading: Reading): Promise<Answer> {
    const { search } = wanted
    const question: SchemaQuestion = {
      schema: wanted.schema_name,
      table: wanted.table_name,
      vectorsOnly: wanted.vector_tables_only,
      includePartitions: wanted.include_partitions,
      includeExtensions: wanted.include_extensions,
      isSearch: search !== undefined,
    }
    const choice = chooseRelations(overview, question)
    if (choice.kind === 'unknown') return choice
    if (search !== undefined && choice.kind === 'list') return searched(search, choice, reading)
    return described(overview, choice, wanted.compact, reading)
  }

  async function searched(search: string, { relations }: SchemaChoice & { kind: 'list' }, reading: Reading) {
    const words = wordsOf(search)
    const { database, context, tool } = reading
    const [found] = await access.read(database, [columnSearch(words)], context, tool)
    if (found === undefined) throw new Error('a statement has no result')
    const matches = matchesOf(words, relations, found)
    return { kind: 'sections', head: `${counted(matches.length)} match.`, sections: matchSections(matches) } as const
  }

  async function described(
    overview: Overview,
    choice: Exclude<SchemaChoice, { kind: 'unknown' }>,
    isCompact: boolean,
    reading: Reading,
  ): Promise<Answer> {
    const { relations, ofExtensions } = choice
    const remaining =
      ofExtensions === 0 ? '' : ` (${ofExtensions} from extensions are omitted; include_extensions: true lists them)`
    const total = `${counted(relations.length)}${overview.isTruncated ? ' and more, which are not listed' : ''}${remaining}`
    if (choice.kind === 'summary')
      return {
        kind: 'sections',
        head: `${total}. Pass schema_name or search to list tables.`,
        sections: summarySections(overview, relations),
      }
    if (choice.kind === 'list')
      return {
        kind: 'sections',
        head: `${total}. Pass table_name to list columns.`,
        sections: listSections(relations, isCompact),
      }
    const details = await catalogue.details(reading, relations)
    const sections = isCompact ? compactSections(relations, details) : columnSections(relations, details)
    return { kind: 'sections', head: `${total}.`, sections }
  }

  return { definition, scopeOf: () => 'mcp:read', call }
}

type Answer =
  | { readonly kind: 'unknown'; readonly problem: string }
  | { readonly kind: 'sections'; readonly head: string; readonly sections: readonly Section[] }

const counted = (count: number) => (count === 1 ? '1 table or view' : `${count} tables and views`)

type ShownPage = {
  readonly overview: Overview
  readonly head: string
  readonly text: string
  readonly cursor: string | undefined
}

function written(database: string, { head, text, cursor }: ShownPage): string {
  const more = cursor === undefined ? '' : `\n\nMore: call again with cursor "${cursor}".`
  return `Database: ${database}. ${head}\n\n${text === '' ? '' : fenced(text)}${more}`
}
