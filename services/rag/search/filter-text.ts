/** Checks configured filters that are SQL text. */
import { sqlConditionError } from '../../../values/sql-condition.ts'
import type { PipelineSettings } from '../configuration/types.ts'

/**
 * Checks the filters of a configuration.
 * @throws Error with the key of each invalid filter
 */
export async function checkFilterTexts(pipelines: readonly Pick<PipelineSettings, 'tables'>[]): Promise<void> {
  const problems: string[] = []
  for (const [number, { tables }] of pipelines.entries()) {
    for (const [index, { filter }] of tables.entries()) {
      const rule = filter?.kind === 'sql' ? await sqlConditionError(filter.text) : undefined
      if (rule !== undefined) problems.push(`pipelines[${number}].tables[${index}].filter ${rule}`)
    }
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
}
