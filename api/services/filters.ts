/** Checks the filters of pipelines with Postgres's own grammar. */
import { mostConditionCharacters, sqlConditionError } from '../../values/sql-condition.ts'
import { badRequest } from '../errors.ts'
import type { ServiceInput } from './schema.ts'

/** @throws ApiError 400 for a filter that is not one SQL condition, or if they are too long in total */
export async function checkFilters(services: readonly ServiceInput[]): Promise<void> {
  for (const [index, { rag_config: rag }] of services.entries()) {
    const filters = (rag?.pipelines ?? []).flatMap(({ tables }) => tables.map(({ filter }) => filter ?? ''))
    if (filters.join('').length > mostConditionCharacters)
      throw badRequest(
        `services[${index}].rag_config.pipelines: filters must have at most ${mostConditionCharacters} characters in total`,
      )
    for (const [pipeline, { tables }] of (rag?.pipelines ?? []).entries())
      for (const [table, { filter }] of tables.entries()) {
        const fault = filter === undefined ? undefined : await sqlConditionError(filter)
        if (fault !== undefined)
          throw badRequest(`services[${index}].rag_config.pipelines[${pipeline}].tables[${table}].filter: ${fault}`)
      }
  }
}
