/**
 * A resource's fingerprint, which is computed without reading the resource. If two fingerprints differ, the resource
 * has changed. An update of a catalogue row changes its `xmin`. Changes of statistics, for example by ANALYZE, do not
 * count.
 */

import { LRUCache } from 'lru-cache'
import { onlyCell } from '../../postgres/cells.ts'
import type { Catalogue } from '../catalogue/index.ts'
import { ofUsers } from '../catalogue/relations.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess, OwnStatement } from '../database/access.ts'
import { type RequestedResource, requestedResource } from './uri.ts'

/** A digest of rows that does not depend on their order. */
const digest = (values: string) =>
  `(pg_catalog.concat_ws(':', pg_catalog.count(*), pg_catalog.sum(pg_catalog.hashtextextended(pg_catalog.concat_ws(':', ${values}), 0))))`

const schemas = (condition: string): string => `
select pg_catalog.concat_ws(' ',
  (select ${digest('relation.oid, relation.xmin, relation.relname, relation.relacl')}
    from pg_catalog.pg_class relation join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
    where relation.relkind in ('r', 'p', 'v', 'm', 'f') and ${condition}),
  (select ${digest('namespace.oid, namespace.xmin')} from pg_catalog.pg_namespace namespace where ${condition}),
  (select ${digest('description.objoid, description.xmin')} from pg_catalog.pg_description description
    where description.classoid in ('pg_class'::regclass, 'pg_namespace'::regclass) and description.objsubid = 0 and description.objoid >= 16384))`

const tableText = `
select pg_catalog.concat_ws(' ',
  (select ${digest('attribute.attnum, attribute.xmin')} from pg_catalog.pg_attribute attribute where attribute.attrelid = wanted.oid),
  (select ${digest('con.oid, con.xmin')} from pg_catalog.pg_constraint con where wanted.oid in (con.conrelid, con.confrelid)),
  (select ${digest('index.indexrelid, index.xmin')} from pg_catalog.pg_index index where index.indrelid = wanted.oid),
  (select ${digest('description.objsubid, description.xmin')} from pg_catalog.pg_description description
    where description.classoid = 'pg_class'::regclass and description.objoid = wanted.oid),
  wanted.oid, wanted.xmin)
from pg_catalog.pg_class wanted join pg_catalog.pg_namespace namespace on namespace.oid = wanted.relnamespace
where namespace.nspname = $1 and wanted.relname = $2`

function statementOf(requested: RequestedResource): OwnStatement | undefined {
  switch (requested.name) {
    case 'schemas':
      return { text: schemas(ofUsers('namespace')) }
    case 'schema':
      return { text: schemas('namespace.nspname = $1'), values: [requested.schema] }
    case 'table':
      return { text: tableText, values: [requested.schema, requested.table] }
    case 'extensions':
    case 'extension':
      return { text: `select ${digest('extname, extversion, extnamespace')} from pg_catalog.pg_extension` }
    case 'settings':
    case 'setting':
      return { text: `select ${digest('name, setting')} from pg_catalog.pg_settings` }
    default:
      return undefined
  }
}

/** The watch reads without a client's request. */
const ownContext = (signal: AbortSignal): CallContext => ({
  caller: {
    kind: 'anyone',
    principal: 'server',
    username: undefined,
    databases: undefined,
    scopes: new Set(['mcp:read']),
    session: 'server',
  },
  signal,
  address: undefined,
  requestId: 'watch',
  traceparent: undefined,
  inputKinds: new Set(),
  answers: undefined,
  progress: () => {},
  log: () => {},
})

export type Fingerprint = (uri: string, database: DatabaseSettings, signal: AbortSignal) => Promise<string | undefined>

/** The maximum number of watched resources. */
const mostWatched = 1_000

/** The fingerprint is undefined if the URI is unknown, or if the resource differs on each read. */
export function createFingerprint(access: DatabaseAccess, catalogue: Catalogue): Fingerprint {
  const seen = new LRUCache<string, string>({ max: mostWatched })
  return async (uri, database, signal) => {
    const requested = requestedResource(uri)
    const statement = requested && statementOf(requested)
    if (statement === undefined) return undefined
    const [rows] = await access.read(database, [statement], ownContext(signal), 'watch')
    const fingerprint = (rows && onlyCell(rows)) ?? ''
    const key = `${database.name} ${uri}`
    // After a change, clients must not read cached data.
    if (seen.get(key) !== fingerprint) catalogue.forget(database)
    seen.set(key, fingerprint)
    return fingerprint
  }
}
