/**
 * `check_health`: checks of the database. Each check reports a status, its numbers and their thresholds. A failed check
 * reports why it failed, and the other checks still run.
 */

import { z } from 'zod'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { fenced, fenceTokens } from '../../retrieval/fence.ts'
import { atMostTokens } from '../../tokens/at-most.ts'
import { failureOf } from '../catalogue/failures.ts'
import type { Check, CheckResult } from '../catalogue/health/check.ts'
import { checks } from '../catalogue/health/index.ts'
import type { DatabaseSettings, McpSettings } from '../configuration/types.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type Tool, type ToolDefinition, type ToolResult, toolText } from '../core/tool.ts'
import type { DatabaseAccess } from '../database/access.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import { toolInput } from './input.ts'
import { onDatabase } from './on-database.ts'
import { line, pageOf, type Section, start } from './pages.ts'

type HealthParts = {
  readonly entries: DatabaseEntries
  readonly access: DatabaseAccess
  readonly limits: McpSettings['limits']
}

const name = 'check_health'
const names = checks.map(check => check.name)

const input = toolInput({ checks: z.array(z.enum(names)).max(names.length).optional() })

const definition: ToolDefinition = {
  name,
  title: 'Health check',
  description:
    'Checks the health of the database: a verdict per check with numbers and thresholds. All checks by default.',
  inputSchema: input.schema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

type Report = { readonly check: string } & (CheckResult | { readonly level: 'unknown'; readonly summary: string })

const levels = ['critical', 'warning', 'unknown', 'ok'] as const

export function checkHealth({ entries, access, limits }: HealthParts): Tool {
  /** @throws errors that are not failures of the database */
  async function reportOf(check: Check, database: DatabaseSettings, context: CallContext): Promise<Report> {
    try {
      return { check: check.name, ...check.evaluate(await access.read(database, check.statements, context, name)) }
    } catch (error) {
      const failure = failureOf(error, database.name)
      if (failure === undefined || failure.code === 'DATABASE_NOT_READY') throw error
      return { check: check.name, level: 'unknown', summary: failure.message }
    }
  }

  async function call(args: JsonObject, context: CallContext): Promise<Outcome<ToolResult>> {
    const { checks: wanted = [] } = input.read(args)
    const chosen = checks.filter(check => wanted.length === 0 || wanted.includes(check.name))
    return onDatabase(entries, context, async database => {
      const reports: Report[] = []
      // The checks run one after another, because a health check must not take connections from applications.
      for (const check of chosen) {
        reports.push(await reportOf(check, database, context))
        context.progress({ progress: reports.length, total: chosen.length, message: check.name })
      }
      return toolText(written(database.name, reports, limits.resultTokens))
    })
  }

  return { definition, scopeOf: () => 'mcp:read', call }
}

/** Tokens for the text around the findings. */
const wordTokens = 200

/** The reports, the worst first. */
function written(database: string, reports: readonly Report[], budget: number): string {
  const counts = levels.flatMap(level => {
    const of = reports.filter(report => report.level === level).length
    return of === 0 ? [] : [`${of} ${level}`]
  })
  const sections = levels
    .flatMap(level => reports.filter(report => report.level === level))
    .map((report): Section => {
      const findings = report.level === 'unknown' ? [] : report.findings
      return {
        heading: `${report.level.toUpperCase()} ${report.check}: ${line([report.summary])}`,
        lines: findings.map(finding => `- ${line([finding])}`),
      }
    })
  const { text, next } = pageOf(sections, start, budget - fenceTokens - wordTokens, atMostTokens)
  const truncation = next === undefined ? '' : '\n\nTruncated: select fewer checks with the argument "checks".'
  return `Database: ${database}. ${counts.join(', ')}.\n\n${fenced(text)}${truncation}`
}
