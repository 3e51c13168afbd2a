/**
 * Answers the root path: an OpenAPI document of the request's schema, or TypeScript types of all schemas. Contains the
 * objects that the role may use, or all objects.
 */

import { version } from '../../../server/version.ts'
import type { HttpResponse } from '../../http/message.ts'
import type { Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import { type AccessibleRow, accessibleOf, accessibleSql, everythingIn } from '../description/accessible.ts'
import { type Catalog, catalogOf, returnedSql, typesSql } from '../description/catalog.ts'
import type { ApiDescription, DescribedSchema } from '../description/model.ts'
import { formTypes, negotiateForm } from '../description/negotiate.ts'
import { renderOpenApi2 } from '../description/openapi-2/document.ts'
import { renderOpenApi31 } from '../description/openapi-3/document.ts'
import { renderTypeScript } from '../description/typescript.ts'
import type { ApiRequest } from '../parse/request.ts'
import { type Exchange, sessionFacts } from './exchange.ts'
import { transactionSteps } from './transaction.ts'

/** Runs statements as the role, for a request to a schema. */
async function readSteps(exchange: Exchange, schema: string, steps: readonly Step[]) {
  const facts = sessionFacts(exchange, schema)
  const { before } = transactionSteps(facts, { readOnly: true, isolationLevel: undefined, end: 'commit' })
  return transact(exchange.pool, exchange.signal, async connection => {
    const results = await connection.run([...before, ...steps], true)
    return results.slice(before.length)
  })
}

/** The accessible objects of each schema; all objects if `openapi-mode` is `ignore-privileges`. */
async function accessible(exchange: Exchange, schema: string, schemas: readonly string[]): Promise<DescribedSchema[]> {
  const { cache, configuration } = exchange.state
  if (configuration.openapiMode === 'ignore-privileges') return schemas.map(name => everythingIn(cache, name))
  const results = await readSteps(
    exchange,
    schema,
    schemas.map(name => ({ text: accessibleSql, values: [name] })),
  )
  return schemas.map((name, index) => {
    const rows = (results[index] ?? []).map(([kind, subject, parameters]) => ({
      kind: String(kind),
      name: String(subject),
      parameters: parameters == null ? null : JSON.parse(String(parameters)),
    }))
    // accessibleSql guarantees this shape.
    return accessibleOf(cache, name, rows as AccessibleRow[])
  })
}

/** Runs with an empty search_path, so that type names equal the cache's. */
async function readCatalog(exchange: Exchange, schemas: readonly string[]): Promise<Catalog> {
  const includesAll = exchange.state.configuration.openapiMode === 'ignore-privileges'
  const [, types, returned] = await readSteps(exchange, schemas[0] ?? '', [
    { text: `SELECT set_config('search_path', '', true)`, values: [] },
    { text: typesSql, values: [] },
    { text: returnedSql, values: [JSON.stringify(schemas), String(includesAll)] },
  ])
  return catalogOf(String(types?.[0]?.[0]), String(returned?.[0]?.[0]))
}

/** The input for both OpenAPI documents. */
async function describeOne(exchange: Exchange, name: string): Promise<ApiDescription> {
  const { configuration, cache } = exchange.state
  const [schema = everythingIn(cache, name)] = await accessible(exchange, name, [name])
  const { openapiServerProxyUri: proxyUri, openapiSecurityActive: securityActive } = configuration
  return { schema, cache, proxyUri, securityActive, version }
}

async function openApi2(exchange: Exchange, name: string): Promise<string> {
  const { dbExtraSearchPath: extraSearchPath, serverHost: host, serverPort: port } = exchange.state.configuration
  return JSON.stringify(renderOpenApi2({ ...(await describeOne(exchange, name)), extraSearchPath, host, port }))
}

async function openApi31(exchange: Exchange, name: string): Promise<string> {
  const { ndjsonEnabled, keysetParameter, batchPath } = exchange.state.configuration
  const described = await describeOne(exchange, name)
  const catalog = await readCatalog(exchange, [name])
  return JSON.stringify(renderOpenApi31({ ...described, catalog, ndjsonEnabled, keysetParameter, batchPath }))
}

async function typeScript(exchange: Exchange, schema: string): Promise<string> {
  const { cache, configuration } = exchange.state
  const schemas = await accessible(exchange, schema, configuration.dbSchemas)
  return renderTypeScript({ cache, catalog: await readCatalog(exchange, configuration.dbSchemas), schemas })
}

const printers = { 'openapi-2.0': openApi2, 'openapi-3.1': openApi31, typescript: typeScript }

export async function answerOpenApi(exchange: Exchange, { schema, accept }: ApiRequest): Promise<HttpResponse> {
  const form = negotiateForm(exchange.http.headers.accept, accept, exchange.state.configuration)
  exchange.timing.record('plan')
  const body = await printers[form](exchange, schema)
  exchange.timing.record('transaction')
  return { status: 200, headers: [['Content-Type', formTypes[form]]], body }
}
