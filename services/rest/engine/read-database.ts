/** What is read of the database outside of requests: its part of the configuration, the settings of roles, and the schema cache. Each over a connection of its own, as the login role. */
import pg from 'pg'
import type { RestConfiguration } from '../configuration/index.ts'
import { fields, keys } from '../configuration/keys.ts'
import { clientConfig } from '../postgres/address.ts'
import { loadSchemaCache } from '../schema-cache/load.ts'
import type { SchemaCache } from '../schema-cache/types.ts'
import { identifier } from '../sql/statement.ts'
import { type RoleSettingRow, type RoleSettings, roleSettings, roleSettingsQuery } from './role-settings.ts'

const connectTimeoutMs = 10_000

/** Runs work on a new connection. */
export async function withClient<T>(dbUri: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(clientConfig(dbUri, connectTimeoutMs))
  // A connection that breaks rejects the query that runs on it.
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** Names of settings as the database has them: `db_schemas` of `db-schemas`. */
const settingNames = fields()
  .flatMap(field => [keys[field].name, ...keys[field].aliases])
  .map(name => name.replaceAll('-', '_'))
const prefixes = ['rst', 'pgrst']

/** The keys that the database sets, on the login role or by the pre-config function. */
export function readDatabaseConfiguration({ dbUri, dbPreConfig }: RestConfiguration): Promise<Record<string, string>> {
  return withClient(dbUri, async client => {
    await client.query('BEGIN')
    if (dbPreConfig !== undefined) await client.query(`SELECT ${dbPreConfig.split('.').map(identifier).join('.')}()`)
    const names = prefixes.flatMap(prefix => settingNames.map(name => `${prefix}.${name}`))
    const known = await client.query<{ name: string; value: string | null }>(
      'SELECT name, current_setting(name, true) AS value FROM unnest($1::text[]) AS name',
      [names],
    )
    await client.query('COMMIT')
    return Object.fromEntries(
      known.rows.flatMap(({ name, value }) => (value === null || value === '' ? [] : [[name, value]])),
    )
  })
}

export function readRoleSettings({ dbUri }: RestConfiguration): Promise<ReadonlyMap<string, RoleSettings>> {
  return withClient(dbUri, async client => roleSettings((await client.query<RoleSettingRow>(roleSettingsQuery)).rows))
}

/** All of it as of one moment. */
export function readSchemaCache(configuration: RestConfiguration): Promise<SchemaCache> {
  const { dbUri, dbSchemas, dbHoistedTxSettings, dbTimezoneEnabled } = configuration
  return withClient(dbUri, async client => {
    await client.query(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
    await client.query(`SET LOCAL search_path = ''`)
    const scope = { schemas: dbSchemas, hoistedSettings: dbHoistedTxSettings, timeZones: dbTimezoneEnabled }
    return await loadSchemaCache(async (text, values = []) => (await client.query(text, [...values])).rows, scope)
  })
}
