/** What the API would have refused of configurations that were applied by kubectl. */
import { type ConfigurationFault, configurationFaults, type ServiceConfig } from '../../crds/index.ts'
import { sqlConditionError } from '../../values/sql-condition.ts'

/** Of conditions in SQL that were checked, newest last: each pass asks again. */
const checked = new Map<string, string | undefined>()
const mostChecked = 1_000

async function filterRule(text: string): Promise<string | undefined> {
  if (checked.has(text)) return checked.get(text)
  const rule = await sqlConditionError(text)
  const [oldest] = checked.keys()
  if (checked.size >= mostChecked && oldest !== undefined) checked.delete(oldest)
  checked.set(text, rule)
  return rule
}

export async function faultsOf(configs: readonly ServiceConfig[]): Promise<ConfigurationFault[]> {
  const faults = configs.flatMap(configurationFaults)
  for (const { rag } of configs)
    for (const [pipeline, { tables }] of (rag?.pipelines ?? []).entries())
      for (const [table, { filter }] of tables.entries()) {
        // The server, too, treats a filter of spaces as none.
        const rule = filter?.trim() ? await filterRule(filter) : undefined
        if (rule !== undefined)
          faults.push({ type: 'rag', field: `pipelines[${pipeline}].tables[${table}].filter`, rule })
      }
  return faults
}
