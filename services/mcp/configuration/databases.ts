/**
 * The databases: `databases` in the file, and variables such as `ESPALIER_DB_n_HOST` for the n-th database. The
 * variables of the first database have no number. The first database falls back to Postgres's variables, such as
 * `PGHOST`.
 */
import { key, List, optional, type Settings, type Sources } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import * as values from '../../configuration/values.ts'
import type { DatabaseSettings } from './types.ts'

const mostDatabases = 100

const connectionName = () =>
  values.text('must be 1 to 63 letters, digits and . _ -', value => /^[A-Za-z0-9._-]{1,63}$/.test(value))
const userNames = () => values.entries('must be user names', entry => entry.length <= 128 && !/\p{Cc}/u.test(entry))

function keysOfOne(isFirst: boolean) {
  const ofFirst = (flag: string | undefined, fallback?: string) =>
    isFirst ? { ...(flag && { flag }), ...(fallback && { fallbacks: [fallback] }) } : {}
  return {
    name: optional(connectionName(), ofFirst('db-name')),
    host: key(values.words(), 'localhost', ofFirst('db-host', 'PGHOST')),
    port: key(values.integer(1, 65_535), 5_432, ofFirst('db-port', 'PGPORT')),
    database: optional(values.words(), ofFirst('db-database', 'PGDATABASE')),
    user: key(values.words(), 'postgres', ofFirst('db-user', 'PGUSER')),
    password: optional(values.secret(), { file: '_file', isSecret: true }, ofFirst(undefined, 'PGPASSWORD')),
    sslmode: key(
      values.choice('disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'),
      'prefer',
      ofFirst('db-sslmode', 'PGSSLMODE'),
    ),
    sslrootcert: optional(values.path(), ofFirst(undefined, 'PGSSLROOTCERT')),
    sslcert: optional(values.path(), ofFirst(undefined, 'PGSSLCERT')),
    sslkey: optional(values.path(), ofFirst(undefined, 'PGSSLKEY')),
    channel_binding: key(
      values.choice('disable', 'prefer', 'require'),
      'prefer',
      ofFirst(undefined, 'PGCHANNELBINDING'),
    ),
    allow_writes: key(values.truth(), false),
    allow_unconfirmed: key(values.truth(), false),
    allow_privileged_login: key(values.truth(), false),
    show_secrets: key(values.truth(), false),
    pool_max_conns: key(values.integer(1, 1_000), 8),
    pool_min_conns: key(values.integer(0, 1_000), 0),
    pool_max_conn_idle_time: key(values.duration(1_000, 86_400_000), '30m'),
    pool_max_conn_lifetime: key(values.duration(1_000, 86_400_000), '1h'),
    pool_health_check_period: key(values.duration(1_000, 3_600_000), '30s'),
    connect_timeout: key(values.duration(100, 600_000), '10s'),
    statement_timeout: key(values.duration(100, 86_400_000), '30s'),
    metadata_ttl: key(values.duration(0, 86_400_000), '5m'),
    available_to_users: optional(userNames(), { needsValue: true }),
  }
}

const [firstKeys, otherKeys] = [keysOfOne(true), keysOfOne(false)]

/** Keys that define a database. A password or a mode alone does not define one. */
const distinctive = ['host', 'database', 'user', 'name'] as const
const variables = new Set(['password_file', ...Object.keys(firstKeys)].map(name => name.toUpperCase()))

function countOutsideFile({ environment, flags }: Sources): number {
  const numbers = Object.entries(environment).flatMap(([variable, value]) => {
    const [, number, name = ''] = /^ESPALIER_DB_(\d{1,3})_([A-Z_]+)$/.exec(variable) ?? []
    return number !== undefined && variables.has(name) && value ? [Number(number)] : []
  })
  const isFirstSet = distinctive.some(name => {
    const fallback = firstKeys[name].extras.fallbacks?.[0] ?? ''
    return environment[`ESPALIER_DB_${name.toUpperCase()}`] || environment[fallback] || flags?.get(`db-${name}`)
  })
  return Math.max(0, isFirstSet ? 1 : 0, ...numbers)
}

export const databases = new List(index => (index === 0 ? firstKeys : otherKeys), mostDatabases, countOutsideFile)

type ReadSettings = Settings<typeof firstKeys>

function settingsOf(read: ReadSettings): DatabaseSettings {
  const { poolMaxConns, poolMinConns, poolMaxConnIdleTime, poolMaxConnLifetime, poolHealthCheckPeriod, ...rest } = read
  const { connectTimeout, statementTimeout, metadataTtl, ...same } = rest
  // The default name of a connection is the name of its database.
  const database = read.database ?? read.name ?? 'postgres'
  return {
    ...same,
    name: read.name ?? database,
    database,
    poolSize: poolMaxConns,
    poolMinimum: poolMinConns,
    poolIdleMs: poolMaxConnIdleTime,
    poolLifetimeMs: poolMaxConnLifetime,
    poolCheckMs: poolHealthCheckPeriod,
    connectTimeoutMs: connectTimeout,
    statementTimeoutMs: statementTimeout,
    metadataMs: metadataTtl,
  }
}

/** Reads all databases, and checks the rules that involve several keys of a database. */
export function databasesOf(
  all: readonly ReadSettings[],
  { problems, refuse, isSet: isGiven }: Checks,
): DatabaseSettings[] {
  if (all.length === 0 && !problems.some(({ key }) => key === 'databases'))
    refuse('databases', 'must have a database: in the file, or by ESPALIER_DB_HOST, or by PGHOST')
  for (const [index, { poolMaxConns, poolMinConns, sslcert, sslkey }] of all.entries()) {
    const table = `databases[${index}]`
    if (!distinctive.some(name => isGiven(`${table}.${name}`)))
      refuse(table, 'must have a host, a database or a name; numbers of databases have no gaps')
    if (poolMinConns > poolMaxConns)
      refuse(`${table}.pool_min_conns`, `must not be more than pool_max_conns, which is ${poolMaxConns}`)
    if ((sslcert === undefined) !== (sslkey === undefined))
      refuse(
        `${table}.${sslcert === undefined ? 'sslkey' : 'sslcert'}`,
        'must be given together with its key or certificate',
      )
  }
  const settings = all.map(settingsOf)
  for (const [index, { name }] of settings.entries()) {
    const first = settings.findIndex(other => other.name === name)
    if (first === index) continue
    const rule = `must be another name than that of databases[${first}]; without one it is the name of the database`
    refuse(`databases[${index}].name`, rule)
  }
  return settings
}
