/**
 * Reads from the database outside of requests: the configuration in the database, role settings, and the schema cache.
 * Each read uses its own connection, as the login role.
 */
import type pg from 'pg'
import { namesOf } from '../../configuration/declaration.ts'
import { connectionAddress } from '../../postgres/address.ts'
import { withClient } from '../../postgres/connect.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import { withSnapshot } from '../../postgres/read-only.ts'
import { MissingSchemas, readSchemaCache as readCache } from '../../schema-cache/load.ts'
import type { SchemaCache } from '../../schema-cache/types.ts'
import type { RestConfiguration } from '../configuration/index.ts'
import { keys } from '../configuration/keys.ts'
import {
  type RoleSettingRow,
  type RoleSettings,
  roleSettings,
  roleSettingsQuery,
  statementTimeoutQuery,
} from './role-settings.ts'

/** The names that settings have in the database: `db_schemas` for `db-schemas`. */
const settingNames = namesOf(keys).map(({ name }) => name.replaceAll('-', '_'))
const prefixes = ['rst', 'pgrst']

/**
 * The login role's settings (ALTER ROLE .. SET): first those for all databases, then those for this database. Excludes
 * ALTER DATABASE .. SET, which the database's owner can run.
 */
const ownSettingsQuery = `
  select split_part(entry, '=', 1) as name, substr(entry, strpos(entry, '=') + 1) as value
  from pg_db_role_setting stored cross join lateral unnest(stored.setconfig) entry
  where stored.setrole = session_user::regrole and split_part(entry, '=', 1) ~ '^(rst|pgrst)[.]'
    and stored.setdatabase in (0, (select oid from pg_database where datname = current_database()))
  order by stored.setdatabase`

/**
 * Settings with `secret` in their name: of the login role, of this database, or of all roles. Every role can read them
 * in pg_db_role_setting.
 */
const readableSecretsQuery = `
  select distinct split_part(entry, '=', 1) as name
  from pg_db_role_setting stored cross join lateral unnest(stored.setconfig) entry
  where stored.setrole in (0, session_user::regrole) and split_part(entry, '=', 1) ~* 'secret' and entry !~ '=$'
    and stored.setdatabase in (0, (select oid from pg_database where datname = current_database()))
  order by name`

type Setting = { name: string; value: string | null }
const names = prefixes.flatMap(prefix => settingNames.map(name => `${prefix}.${name}`))

async function settingsInForce(client: pg.Client): Promise<Map<string, string | null>> {
  const text = 'SELECT name, current_setting(name, true) AS value FROM unnest($1::text[]) AS name'
  const { rows } = await client.query<Setting>(text, [names])
  return new Map(rows.map(({ name, value }) => [name, value]))
}

/** The keys that the pre-config function sets in its transaction. */
async function preConfigured(client: pg.Client, name: string): Promise<Setting[]> {
  await client.query('BEGIN')
  const before = await settingsInForce(client)
  await client.query(`SELECT ${name.split('.').map(quoteIdentifier).join('.')}()`)
  const after = await settingsInForce(client)
  await client.query('COMMIT')
  return [...after].flatMap(([key, value]) => (value === before.get(key) ? [] : [{ name: key, value }]))
}

/**
 * The keys that the database sets: on the login role, and in the pre-config function. The function takes precedence.
 */
export function readDatabaseConfiguration({ dbUri, dbPreConfig }: RestConfiguration): Promise<Record<string, string>> {
  return withClient(connectionAddress(dbUri), async client => {
    const own = (await client.query<Setting>(ownSettingsQuery)).rows
    const configured = dbPreConfig === undefined ? [] : await preConfigured(client, dbPreConfig)
    return Object.fromEntries([...own, ...configured].flatMap(({ name, value }) => (value ? [[name, value]] : [])))
  })
}

/** Settings of the roles that requests use, and of the login role. */
export type SettingsOfRoles = {
  readonly byRole: ReadonlyMap<string, RoleSettings>
  /** Statement timeout if the role has none; 0: none. */
  readonly statementTimeoutMs: number
  /** The names of settings with a secret that every login can read. */
  readonly readableSecrets: readonly string[]
}

export function readRoleSettings({ dbUri }: RestConfiguration): Promise<SettingsOfRoles> {
  return withSnapshot(connectionAddress(dbUri), async query => {
    const rows = await query<RoleSettingRow>(roleSettingsQuery)
    const [timeout] = await query<{ milliseconds: string }>(statementTimeoutQuery)
    const secrets = await query<{ name: string }>(readableSecretsQuery)
    return {
      byRole: roleSettings(rows),
      statementTimeoutMs: Number(timeout?.milliseconds ?? 0),
      readableSecrets: secrets.map(({ name }) => name),
    }
  })
}

/** Reads everything in one snapshot. Reports a missing schema with its configuration key. */
export async function readSchemaCache(configuration: RestConfiguration): Promise<SchemaCache> {
  const {
    dbUri,
    dbSchemas: schemas,
    dbHoistedTxSettings: hoistedSettings,
    dbTimezoneEnabled: timeZones,
  } = configuration
  try {
    return await readCache(connectionAddress(dbUri), { schemas, hoistedSettings, timeZones })
  } catch (error) {
    throw error instanceof MissingSchemas ? new Error(`db-schemas: ${error.message}`, { cause: error }) : error
  }
}
