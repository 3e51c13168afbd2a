/** The faults in configurations applied with kubectl that the API would have refused. */
import { createHash } from 'node:crypto'
import { type ConfigurationFault, configurationFaults, type ServiceConfig } from '../../crds/index.ts'
import { mostConditionCharacters, sqlConditionError } from '../../values/sql-condition.ts'
import { shortened } from '../../values/text.ts'

/** SQL conditions that were already checked, by digest, newest last. Without it, each pass would check them again. */
const checked = new Map<string, string | undefined>()
const mostChecked = 10_000

async function filterRule(text: string): Promise<string | undefined> {
  const key = createHash('sha256').update(text).digest('base64')
  if (checked.has(key)) return checked.get(key)
  const rule = await sqlConditionError(text)
  const [oldest] = checked.keys()
  if (checked.size >= mostChecked && oldest !== undefined) checked.delete(oldest)
  checked.set(key, rule === undefined ? undefined : shortened(rule, 200))
  return rule
}

export async function faultsOf(configs: readonly ServiceConfig[]): Promise<ConfigurationFault[]> {
  const faults = configs.flatMap(configurationFaults)
  for (const { rag } of configs) {
    const filters = (rag?.pipelines ?? []).flatMap(({ tables }) => tables.map(({ filter }) => filter ?? ''))
    if (filters.join('').length > mostConditionCharacters) {
      const rule = `must have filters of at most ${mostConditionCharacters} characters in total`
      faults.push({ type: 'rag', field: 'pipelines', rule })
      continue
    }
    for (const [pipeline, { tables }] of (rag?.pipelines ?? []).entries())
      for (const [table, { filter }] of tables.entries()) {
        // The server also treats a filter of only spaces as no filter.
        const rule = filter?.trim() ? await filterRule(filter) : undefined
        if (rule !== undefined)
          faults.push({ type: 'rag', field: `pipelines[${pipeline}].tables[${table}].filter`, rule })
      }
  }
  return faults
}
