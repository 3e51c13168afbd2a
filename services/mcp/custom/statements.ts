/**
 * Checks the statements of custom definitions before the server starts. Reports the key of a statement that can never
 * run.
 */
import { nameOf, type Path } from '../../configuration/document.ts'
import { ConfigurationError, type Problem } from '../../configuration/errors.ts'
import { type Analysis, analyse } from '../statement/analysis.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { doStatement, functionStatement } from './procedural.ts'
import type { CustomDefinitions } from './read.ts'
import type { CustomToolDefinition } from './schema.ts'

/** The highest number among the parameters `$1`, `$2` and so on. */
export const parameterCount = ({ tree }: Analysis): number =>
  Math.max(0, ...[...JSON.stringify(tree).matchAll(/"ParamRef":\{"number":(\d+)/g)].map(([, number]) => Number(number)))

async function analysed(text: string): Promise<Analysis | string> {
  try {
    return analyse(await parseStatement(text))
  } catch (error) {
    if (error instanceof StatementRefusal) return error.message
    throw error
  }
}

const isShown = ({ class: kind }: Analysis) => kind === 'select' || kind === 'show' || kind === 'explain'

async function ruleOfTool(tool: CustomToolDefinition): Promise<string | undefined> {
  if (tool.type !== 'sql') {
    const text = tool.type === 'pl-do' ? doStatement(tool.code, {}) : functionStatement(tool)
    const found = await analysed(text)
    return typeof found === 'string' ? `cannot be run: ${found}` : undefined
  }
  const found = await analysed(tool.sql)
  if (typeof found === 'string') return `must be one SQL statement: ${found}`
  if (found.class === 'other') return `must not be ${found.tag}, which is not allowed here`
  const properties = Object.keys(tool.input_schema.properties).length
  const parameters = parameterCount(found)
  return parameters > properties ? `uses $${parameters}, but input_schema has ${properties} properties` : undefined
}

async function ruleOfResource(sql: string): Promise<string | undefined> {
  const found = await analysed(sql)
  if (typeof found === 'string') return `must be one SQL statement: ${found}`
  if (!isShown(found)) return `must be a read such as SELECT, but is ${found.tag}`
  return parameterCount(found) > 0 ? 'must not have parameters such as $1' : undefined
}

/** @throws ConfigurationError with all errors */
export async function checkStatements({ tools, resources, sourceOf }: CustomDefinitions): Promise<void> {
  const problems: Problem[] = []
  const note = (path: Path, rule: string | undefined) => {
    if (rule !== undefined) problems.push({ key: nameOf(path), source: sourceOf(path), rule })
  }
  for (const [index, tool] of tools.entries())
    note(['tools', index, tool.type === 'sql' ? 'sql' : 'code'], await ruleOfTool(tool))
  for (const [index, resource] of resources.entries())
    if (resource.type === 'sql') note(['resources', index, 'sql'], await ruleOfResource(resource.sql))
  if (problems.length > 0) throw new ConfigurationError(problems)
}
