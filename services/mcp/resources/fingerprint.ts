/**
 * Whether a resource has changed since somebody looked, told without reading it: two texts that differ mean that it has. A row of the catalogue that is written anew has
 * another `xmin`; what changes only with statistics, as after ANALYZE, does not count.
 */

import { LRUCache } from 'lru-cache'
import { onlyCell } from '../../postgres/cells.ts'
import type { Catalogue } from '../catalogue/index.ts'
import { ofUsers } from '../catalogue/relations.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { DatabaseAccess, OwnStatement } from '../database/access.ts'
import { type ResourceAsked, resourceAsked } from './uri.ts'

/** Of rows in any order. */
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

function statementOf(asked: ResourceAsked): OwnStatement | undefined {
  switch (asked.name) {
    case 'schemas':
      return { text: schemas(ofUsers('namespace')) }
    case 'schema':
      return { text: schemas('namespace.nspname = $1'), values: [asked.schema] }
    case 'table':
      return { text: tableText, values: [asked.schema, asked.table] }
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

/** Nobody calls when the server looks by itself. */
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
  abilities: new Set(),
  answers: undefined,
  progress: () => {},
  log: () => {},
})

export type Fingerprint = (uri: string, database: DatabaseSettings, signal: AbortSignal) => Promise<string | undefined>

/** Resources that are watched at once. */
const mostWatched = 1_000

/** undefined where it cannot be told: the URI is of no resource here, or of one that is never twice the same. */
export function createFingerprint(access: DatabaseAccess, catalogue: Catalogue): Fingerprint {
  const seen = new LRUCache<string, string>({ max: mostWatched })
  return async (uri, database, signal) => {
    const asked = resourceAsked(uri)
    const statement = asked && statementOf(asked)
    if (statement === undefined) return undefined
    const [rows] = await access.read(database, [statement], ownContext(signal), 'watch')
    const fingerprint = (rows && onlyCell(rows)) ?? ''
    const key = `${database.name} ${uri}`
    // Who is told of a change and reads anew must not be shown what was there before.
    if (seen.get(key) !== fingerprint) catalogue.forget(database)
    seen.set(key, fingerprint)
    return fingerprint
  }
}
