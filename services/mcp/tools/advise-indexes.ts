/**
 * `advise_indexes`: indexes that would make a statement faster, according to its plan. With HypoPG, the planner decides
 * which of these indexes it would use, and at what cost. Without HypoPG, the advice follows from the plan alone.
 * Without a statement, the tool lists foreign keys without an index, and tables that are often read completely.
 */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import { cellsOf, onlyCell } from '../../postgres/cells.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { type Candidate, type Findings, findingsOf, type KnownTable } from '../catalogue/advice/candidates.ts'
import { nodesOf, type PlanNode, planOf } from '../catalogue/advice/plan.ts'
import {
  explain,
  explainPrefix,
  explainWith,
  hypotheticalExtension,
  type ReadStatement,
  sequentialScans,
  unindexedForeignKeys,
} from '../catalogue/advice/statements.ts'
import type { Catalogue, Reading } from '../catalogue/index.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolError, toolText } from '../core/tool.ts'
import type { DatabaseAccess, OwnStatement, Rows } from '../database/access.ts'
import type { Catalogue as StatementCatalogue } from '../database/catalogue.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { analyse, calledNames } from '../statement/analysis.ts'
import { decide, readsOnly } from '../statement/decide.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { optionalText, toolInput } from './input.ts'
import { onDatabase } from './on-database.ts'
import { line, pageOf, start } from './pages.ts'
import { statementFailure } from './statement-failure.ts'

type AdviseIndexesParts = {
  readonly entries: DatabaseEntries
  readonly access: DatabaseAccess
  readonly catalogue: Catalogue
  /** Reads the facts that decide whether a statement may run. */
  readonly statements: StatementCatalogue
  readonly limits: McpSettings['limits']
}

const name = 'advise_indexes'

const input = toolInput({
  query: optionalText({ maxLength: 65_536, description: 'May contain parameters such as $1' }),
})

const definition: ToolDefinition = {
  name,
  title: 'Index advice',
  description:
    'Recommends indexes for a SELECT from its plan; the SELECT is not run. Without query, lists foreign keys without an index, and tables that are often read completely.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

/** Tokens for the text around the advice. */
const wordTokens = 250

export function adviseIndexes({ entries, access, catalogue, statements, limits }: AdviseIndexesParts): Tool {
  const read = ({ database, context, tool }: Reading, own: readonly OwnStatement[]) =>
    access.read(database, own, context, tool)

  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const { query } = input.read(args)
    return onDatabase(entries, context, async database => {
      const reading = { database, context, tool: name }
      try {
        return query === undefined ? await ofStatistics(reading) : await ofQuery(query, reading)
      } catch (error) {
        if (query === undefined) throw error
        const failure = statementFailure(error, query, database, explainPrefix.length)
        if (failure === undefined) throw error
        return toolError(failure)
      }
    })
  }

  /** Returns the statement if it only reads. @throws StatementRefusal */
  async function judged(query: string, { database, context }: Reading): Promise<ReadStatement> {
    const parsed = await parseStatement(query)
    const analysis = analyse(parsed)
    if (analysis.class !== 'select')
      throw new StatementRefusal('forbidden', `query: must be a SELECT; this is ${analysis.tag}.`)
    decide(analysis, await statements.facts(database, context, calledNames(analysis)), readsOnly)
    return { text: analysis.text, isGeneric: hasParameters(parsed.node) }
  }

  async function ofQuery(written: string, reading: Reading): Promise<Outcome<ToolResult>> {
    const query = await judged(written, reading)
    const [extension, ...explained] = await read(reading, [hypotheticalExtension, ...explain(query)])
    const plan = planFrom(explained.at(-1))
    const findings = findingsOf(plan, await tablesOf(plan, reading))
    const schema = extension && onlyCell(extension)
    if (schema === undefined || findings.candidates.length === 0)
      return adviceResult(reading, `Cost of the plan: ${plan.cost}.`, adviceLines(findings), remarkOn(findings, schema))
    const sql = findings.candidates.map(({ tried }) => tried)
    const measured = measuredOf(findings.candidates, await read(reading, explainWith(schema, sql, query)))
    return adviceResult(
      reading,
      `Cost of the plan: ${plan.cost}, with the indexes that are used: ${measured.cost} (HypoPG).`,
      [...measured.used.map(adviceLine), ...measured.unused.map(unusedLine), ...findings.notes.map(noteLine)],
      undefined,
    )
  }

  async function tablesOf(plan: PlanNode, reading: Reading) {
    const { relations } = await catalogue.overview(reading)
    const named = new Set([...nodesOf(plan)].map(({ schema, relation }) => keyOf(schema, relation)))
    const wanted = relations.filter(one => named.has(keyOf(one.schema, one.name)))
    const details = await catalogue.details(reading, wanted)
    const known = new Map(
      wanted.flatMap((relation): [string, KnownTable][] => {
        const own = details.get(relation.oid)
        return own === undefined ? [] : [[keyOf(relation.schema, relation.name), { relation, details: own }]]
      }),
    )
    return (schema: string, table: string) => known.get(keyOf(schema, table))
  }

  async function ofStatistics(reading: Reading): Promise<Outcome<ToolResult>> {
    const [keys, scans] = await read(reading, [unindexedForeignKeys, sequentialScans])
    if (keys === undefined || scans === undefined) throw new Error('a statement has no result')
    const lines = [
      ...cellsOf(keys).map(cells => {
        const sql = `CREATE INDEX CONCURRENTLY ON ${cells.text('table')} (${cells.text('columns')});`
        return `${sql} -- the foreign key ${cells.text('name')} has no index, ~${cells.text('rows')} rows`
      }),
      ...cellsOf(scans).map(
        cells => `${cells.text('table')}: ${cells.text('scans')} complete reads, ~${cells.text('rows')} rows each`,
      ),
    ]
    return adviceResult(reading, '', lines, scans.rows.length > 0 ? scansRemark : undefined)
  }

  function adviceResult({ database }: Reading, head: string, lines: readonly string[], remark: string | undefined) {
    const escaped = lines.map(text => line([text]))
    const page = pageOf(
      [{ heading: 'Advice:', lines: escaped }],
      start,
      limits.resultTokens - fenceTokens - wordTokens,
      atMostTokens,
    )
    const body = lines.length === 0 ? 'No index to advise.' : fenced(page.text)
    return toolText(
      [`Database: ${database.name}. ${head}`.trim(), body, ...(remark === undefined ? [] : [remark])].join('\n'),
    )
  }

  return { definition, scopeOf: () => 'mcp:read', call }
}

/** Whether the tree contains a parameter such as `$1`. The parser has already limited the tree's depth. */
const hasParameters = (node: unknown): boolean =>
  typeof node === 'object' && node !== null && ('ParamRef' in node || Object.values(node).some(hasParameters))

const keyOf = (schema: string | undefined, table: string | undefined) => JSON.stringify([schema, table])

function planFrom(rows: Rows | undefined): PlanNode {
  const text = rows && onlyCell(rows)
  if (text === undefined) throw new Error('EXPLAIN returned no plan')
  return planOf(text)
}

const scansRemark =
  'For advice about tables that were read completely, set query to a statement that reads them (see top_queries).'
const adviceLine = ({ sql, reason }: Candidate) => `${sql} -- ${reason}`
const unusedLine = ({ sql }: Candidate) => `not useful: ${sql} -- the planner would not use this index`
const noteLine = (note: string) => `note: ${note}`
const adviceLines = ({ candidates, notes }: Findings) => [...candidates.map(adviceLine), ...notes.map(noteLine)]

const remarkOn = ({ candidates }: Findings, schema: string | undefined) =>
  candidates.length > 0 && schema === undefined
    ? 'Not measured: the extension hypopg is not installed. Create an index, and compare the plans with execute_explain.'
    : undefined

type Measured = { readonly cost: number; readonly used: readonly Candidate[]; readonly unused: readonly Candidate[] }

/**
 * Reads the results of `explainWith`. After the first result, each candidate has one result: the name of its index. The
 * second-last result is the plan.
 */
function measuredOf(candidates: readonly Candidate[], results: readonly Rows[]): Measured {
  const plan = planFrom(results.at(-2))
  const usedNames = new Set([...nodesOf(plan)].flatMap(({ indexName }) => indexName ?? []))
  const isUsed = (_: Candidate, at: number) => {
    const made = results[at + 1]
    const index = made && onlyCell(made)
    return index !== undefined && usedNames.has(index)
  }
  return {
    cost: plan.cost,
    used: candidates.filter(isUsed),
    unused: candidates.filter((candidate, at) => !isUsed(candidate, at)),
  }
}
