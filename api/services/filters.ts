/** The filters of pipelines, by Postgres's own grammar. */
import { sqlConditionError } from '../../values/sql-condition.ts'
import { badRequest } from '../errors.ts'
import type { ServiceInput } from './schema.ts'

/** @throws ApiError 400 for one that is not one SQL condition */
export async function checkFilters(services: readonly ServiceInput[]): Promise<void> {
  for (const [index, { rag_config: rag }] of services.entries())
    for (const [pipeline, { tables }] of (rag?.pipelines ?? []).entries())
      for (const [table, { filter }] of tables.entries()) {
        const fault = filter === undefined ? undefined : await sqlConditionError(filter)
        if (fault !== undefined)
          throw badRequest(`services[${index}].rag_config.pipelines[${pipeline}].tables[${table}].filter: ${fault}`)
      }
}
