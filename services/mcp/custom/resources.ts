/** The installation's own resources: text from the file, or the rows of a read statement. */

import { fenceTokens } from '../../retrieval/fence.ts'
import { failureOf, noDatabase } from '../catalogue/failures.ts'
import type { McpSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { ReadResult, ResourceProvider } from '../core/resource.ts'
import type { DatabaseEntries } from '../database/entries.ts'
import type { Databases } from '../database/index.ts'
import { failureText } from '../resources/failure.ts'
import { analyse, calledNames } from '../statement/analysis.ts'
import { decide, readsOnly } from '../statement/decide.ts'
import { parseStatement } from '../statement/parser.ts'
import { StatementRefusal } from '../statement/refusal.ts'
import { tableText } from '../text/table.ts'
import { pageOf } from '../tools/page.ts'
import type { ResourceDefinition } from './schema.ts'

export type CustomParts = {
  readonly entries: DatabaseEntries
  readonly databases: Databases
  readonly limits: McpSettings['limits']
}

/** The maximum number of rows in one result. */
export const mostRows = 1_000

const jsonType = 'application/json'
const rowsType = 'text/tab-separated-values'
const mimeTypeOf = ({ type, mimeType }: ResourceDefinition) => mimeType ?? (type === 'sql' ? rowsType : jsonType)

function staticText({ data, mimeType = jsonType }: Extract<ResourceDefinition, { type: 'static' }>): string {
  return typeof data === 'string' && !/json/i.test(mimeType) ? data : JSON.stringify(data)
}

export function customResources(
  definitions: readonly ResourceDefinition[],
  { entries, databases, limits }: CustomParts,
): ResourceProvider {
  const byUri = new Map(definitions.map(one => [one.uri, one]))
  const list = definitions.map(one => {
    const { uri, name, description } = one
    return { uri, name, ...(description !== undefined && { description }), mimeType: mimeTypeOf(one) }
  })

  async function rowsText(sql: string, uri: string, context: CallContext): Promise<string> {
    const database = entries.current(context.caller)
    if (database === undefined) return failureText(noDatabase)
    try {
      const analysis = analyse(await parseStatement(sql))
      decide(analysis, await databases.facts(database, context, calledNames(analysis)), readsOnly)
      const { statement } = pageOf(analysis, 'read', { limit: mostRows, offset: 0 })
      const { columns, texts, isTruncated } = await databases.run(database, statement, context, uri.slice(0, 64))
      const rows = texts.decoded().slice(0, mostRows)
      const table = tableText(
        columns.map(({ name }) => name),
        rows,
        limits.resultTokens - fenceTokens,
      )
      const hasMore = isTruncated || table.rows < texts.length
      return hasMore ? `${table.text}\n(${table.rows} rows shown, there are more)` : table.text
    } catch (error) {
      if (error instanceof StatementRefusal) {
        databases.refused(database, sql, context, uri.slice(0, 64))
        return failureText({ message: error.message, code: 'REFUSED', retryable: false })
      }
      const failure = failureOf(error, database.name)
      if (failure === undefined) throw error
      return failureText(failure)
    }
  }

  async function read(definition: ResourceDefinition, context: CallContext): Promise<ReadResult> {
    const { uri } = definition
    const text = definition.type === 'static' ? staticText(definition) : await rowsText(definition.sql, uri, context)
    return { contents: [{ uri, mimeType: mimeTypeOf(definition), text }] }
  }

  return {
    list: () => list,
    templates: () => [],
    read: (uri, context) => {
      const definition = byUri.get(uri)
      return definition && read(definition, context).then(result => ({ kind: 'result', result }))
    },
  }
}
