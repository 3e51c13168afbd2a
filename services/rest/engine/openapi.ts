/** The root: the schemas as far as the role may see them, as a document of OpenAPI or as types of TypeScript. */

import { version } from '../../../server/version.ts'
import type { HttpResponse } from '../../http/message.ts'
import type { Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import {
  type Accessible,
  type AccessibleRow,
  accessibleOf,
  accessibleSql,
  everythingIn,
} from '../description/accessible.ts'
import { type Catalog, catalogOf, returnedSql, typesSql } from '../description/catalog.ts'
import type { DescribedSchema } from '../description/model.ts'
import { formTypes, negotiateForm } from '../description/negotiate.ts'
import { renderOpenApi } from '../description/openapi-2/document.ts'
import { renderOpenApi31 } from '../description/openapi-3/document.ts'
import { renderTypeScript } from '../description/typescript.ts'
import type { ApiRequest } from '../parse/request.ts'
import { type Exchange, sessionFacts } from './exchange.ts'
import { transactionSteps } from './transaction.ts'

/** Runs statements as the role, of a request to a schema. */
async function ask(exchange: Exchange, schema: string, steps: readonly Step[]) {
  const facts = sessionFacts(exchange, schema)
  const { before } = transactionSteps(facts, { readOnly: true, isolationLevel: undefined, end: 'commit' })
  return transact(exchange.pool, exchange.signal, async connection => {
    const results = await connection.run([...before, ...steps], true)
    return results.slice(before.length)
  })
}

/** What of each of these schemas the role may see, or all of it. */
async function accessible(exchange: Exchange, schema: string, schemas: readonly string[]): Promise<Accessible[]> {
  const { cache, configuration } = exchange.state
  if (configuration.openapiMode === 'ignore-privileges') return schemas.map(name => everythingIn(cache, name))
  const results = await ask(
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
    // The shape is what accessibleSql selects.
    return accessibleOf(cache, name, rows as AccessibleRow[])
  })
}

/** With an empty search_path, so that types have the names that the cache has. */
async function readCatalog(exchange: Exchange, schemas: readonly string[]): Promise<Catalog> {
  const tellsAll = exchange.state.configuration.openapiMode === 'ignore-privileges'
  const [, types, returned] = await ask(exchange, schemas[0] ?? '', [
    { text: `SELECT set_config('search_path', '', true)`, values: [] },
    { text: typesSql, values: [] },
    { text: returnedSql, values: [JSON.stringify(schemas), String(tellsAll)] },
  ])
  return catalogOf(String(types?.[0]?.[0]), String(returned?.[0]?.[0]))
}

async function describe(exchange: Exchange, schema: string, schemas: readonly string[]) {
  const { cache } = exchange.state
  const seen = await accessible(exchange, schema, schemas)
  const described: DescribedSchema[] = schemas.map((name, index) => ({
    name,
    tables: seen[index]?.accessibleTables ?? [],
    routines: seen[index]?.accessibleRoutines ?? [],
  }))
  return { cache, catalog: await readCatalog(exchange, schemas), schemas: described }
}

async function openApi2(exchange: Exchange, schema: string): Promise<string> {
  const { configuration, cache } = exchange.state
  const { openapiServerProxyUri: proxyUri } = configuration
  const [seen = everythingIn(cache, schema)] = await accessible(exchange, schema, [schema])
  return JSON.stringify(
    renderOpenApi({
      ...seen,
      cache,
      schema,
      extraSearchPath: configuration.dbExtraSearchPath,
      schemaDescription: cache.schemaDescriptions.get(schema) ?? null,
      ...(proxyUri === undefined ? {} : { proxyUri }),
      securityActive: configuration.openapiSecurityActive,
      host: configuration.serverHost,
      port: configuration.serverPort,
      version,
    }),
  )
}

async function openApi31(exchange: Exchange, name: string): Promise<string> {
  const { configuration, cache } = exchange.state
  const described = await describe(exchange, name, [name])
  const [schema = { name, tables: [], routines: [] }] = described.schemas
  return JSON.stringify(
    renderOpenApi31({
      described,
      schema,
      comment: cache.schemaDescriptions.get(name) ?? null,
      proxyUri: configuration.openapiServerProxyUri,
      securityActive: configuration.openapiSecurityActive,
      ndjsonEnabled: configuration.ndjsonEnabled,
      keysetParameter: configuration.keysetParameter,
      batchPath: configuration.batchPath,
      version,
    }),
  )
}

export async function answerOpenApi(exchange: Exchange, { schema, accept }: ApiRequest): Promise<HttpResponse> {
  const { configuration } = exchange.state
  const form = negotiateForm(exchange.http.headers.accept, accept, configuration)
  exchange.timing.mark('plan')
  const body = await (() => {
    switch (form) {
      case 'openapi-2.0':
        return openApi2(exchange, schema)
      case 'openapi-3.1':
        return openApi31(exchange, schema)
      case 'typescript':
        return describe(exchange, schema, configuration.dbSchemas).then(renderTypeScript)
    }
  })()
  exchange.timing.mark('transaction')
  return { status: 200, headers: [['Content-Type', formTypes[form]]], body }
}
