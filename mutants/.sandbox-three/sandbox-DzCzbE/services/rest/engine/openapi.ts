/** The root: an OpenAPI document of a schema, as far as the role may see it. */
// @ts-nocheck


import { version } from '../../../server/version.ts'
import type { HttpResponse } from '../../http/message.ts'
import { transact } from '../../postgres/transact.ts'
import { notAcceptable } from '../errors/catalogue.ts'
import {
  type Accessible,
  type AccessibleRow,
  accessibleOf,
  accessibleSql,
  everythingIn,
} from '../openapi/accessible.ts'
import { renderOpenApi } from '../openapi/document.ts'
import { contentType, type MediaType, mediaTypeName } from '../parse/media.ts'
import type { ApiRequest } from '../parse/request.ts'
import { type Exchange, sessionFacts } from './exchange.ts'
import { transactionSteps } from './transaction.ts'

const openApiTypes = new Set(['application/openapi+json', 'application/json', '*/*'])

/** OpenAPI answers as itself, to whoever accepts JSON of any kind. */
function openApiType(accept: readonly MediaType[]): MediaType {
  if (accept.some(type => openApiTypes.has(mediaTypeName(type))))
    return { kind: 'named', name: 'application/openapi+json' }
  throw notAcceptable(accept.map(mediaTypeName))
}

/** What of a schema the role may see, or all of it. */
async function accessible(exchange: Exchange, schema: string): Promise<Accessible> {
  const { pool, signal, state } = exchange
  if (state.configuration.openapiMode === 'ignore-privileges') return everythingIn(state.cache, schema)
  const facts = sessionFacts(exchange, schema)
  const { before } = transactionSteps(facts, { readOnly: true, isolationLevel: undefined, end: 'commit' })
  return transact(pool, signal, async connection => {
    const results = await connection.run([...before, { text: accessibleSql, values: [schema] }], true)
    const rows = (results[before.length] ?? []).map(([kind, name, parameters]) => ({
      kind: String(kind),
      name: String(name),
      parameters: parameters == null ? null : JSON.parse(String(parameters)),
    }))
    // The shape is what accessibleSql selects.
    return accessibleOf(state.cache, schema, rows as AccessibleRow[])
  })
}

export async function answerOpenApi(exchange: Exchange, { schema, accept }: ApiRequest): Promise<HttpResponse> {
  const type = openApiType(accept)
  const { configuration, cache } = exchange.state
  const { openapiServerProxyUri: proxyUri } = configuration
  const document = renderOpenApi({
    ...(await accessible(exchange, schema)),
    cache,
    schema,
    extraSearchPath: configuration.dbExtraSearchPath,
    schemaDescription: cache.schemaDescriptions.get(schema) ?? null,
    ...(proxyUri === undefined ? {} : { proxyUri }),
    securityActive: configuration.openapiSecurityActive,
    host: configuration.serverHost,
    port: configuration.serverPort,
    version,
  })
  return { status: 200, headers: [['Content-Type', contentType(type)]], body: JSON.stringify(document) }
}
