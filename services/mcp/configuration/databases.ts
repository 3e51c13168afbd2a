/**
 * The databases: `databases` of the file, and for the n-th `ESPALIER_DB_n_HOST` and the like, without the number for the first. What is said
 * of the first nowhere is taken from the variables of Postgres, `PGHOST` and the like.
 */
import { choice, secret, truth, whole } from '../../configuration/values.ts'
import { connectionName, duration, path, port, userNames, words } from './kinds.ts'
import type { Elsewhere, Environment, SettingsReader } from './reader.ts'
import type { DatabaseSettings } from './types.ts'

const mostDatabases = 100
const fields = [
  ...['NAME', 'HOST', 'PORT', 'DATABASE', 'USER', 'PASSWORD', 'PASSWORD_FILE', 'SSLMODE', 'SSLROOTCERT', 'SSLCERT'],
  ...[
    'SSLKEY',
    'CHANNEL_BINDING',
    'ALLOW_WRITES',
    'ALLOW_UNCONFIRMED',
    'ALLOW_PRIVILEGED_LOGIN',
    'SHOW_SECRETS',
    'POOL_MAX_CONNS',
    'POOL_MIN_CONNS',
    'POOL_MAX_CONN_IDLE_TIME',
    'POOL_MAX_CONN_LIFETIME',
    'POOL_HEALTH_CHECK_PERIOD',
    'CONNECT_TIMEOUT',
    'STATEMENT_TIMEOUT',
    'METADATA_TTL',
  ],
  'AVAILABLE_TO_USERS',
]
const ofPostgres: Readonly<Record<string, string>> = {
  host: 'PGHOST',
  port: 'PGPORT',
  database: 'PGDATABASE',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  channel_binding: 'PGCHANNELBINDING',
}
const flags: Readonly<Record<string, string>> = {
  name: 'db-name',
  host: 'db-host',
  port: 'db-port',
  database: 'db-database',
  user: 'db-user',
  sslmode: 'db-sslmode',
}
/** That there is a database at all; a password or a mode alone does not say so. */
const telling = ['host', 'database', 'user', 'name']

/** The highest number that a variable has. */
function highestNumber(environment: Environment): number {
  const numbers = Object.keys(environment).flatMap(variable => {
    const [, number, field = ''] = /^ESPALIER_DB_(\d{1,3})_([A-Z_]+)$/.exec(variable) ?? []
    return number !== undefined && fields.includes(field) && environment[variable] ? [Number(number)] : []
  })
  return Math.max(0, ...numbers)
}

const elsewhereOf = (index: number, field: string): Elsewhere => {
  const upper = field.toUpperCase()
  const numbered = `DB_${index + 1}_${upper}`
  if (index > 0) return { variables: [numbered] }
  const [fallback, flag] = [ofPostgres[field], flags[field]]
  return {
    variables: [numbered, `DB_${upper}`],
    ...(fallback === undefined ? {} : { fallbacks: [fallback] }),
    ...(flag === undefined ? {} : { flag }),
  }
}

function readDatabase(reader: SettingsReader, index: number): DatabaseSettings {
  const table = `databases[${index}]`
  const key = (field: string) => `${table}.${field}`
  const at = (field: string) => [key(field), elsewhereOf(index, field)] as const
  const take = <Value>(field: string, read: (key: string, elsewhere: Elsewhere) => Value) => read(...at(field))
  const file = (field: string) => take(field, (name, elsewhere) => reader.take(name, path(), elsewhere))
  const text = (field: string) => take(field, (name, elsewhere) => reader.take(name, words(), elsewhere))
  const flag = (field: string) => take(field, (name, elsewhere) => reader.take(name, truth(), elsewhere)) ?? false
  const time = (field: string, least: number, most: number) =>
    take(field, (name, elsewhere) => reader.take(name, duration(least, most), elsewhere))
  const bindings = choice('disable', 'prefer', 'require')
  const modes = choice('disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full')

  if (!telling.some(field => reader.isGiven(...at(field))))
    reader.refuse(table, 'must have a host, a database or a name; numbers of databases have no gaps')
  const poolSize = take('pool_max_conns', (one, elsewhere) => reader.take(one, whole(1, 1_000), elsewhere)) ?? 8
  const poolMinimum = take('pool_min_conns', (one, elsewhere) => reader.take(one, whole(0, 1_000), elsewhere)) ?? 0
  if (poolMinimum > poolSize)
    reader.refuse(
      key('pool_min_conns'),
      `must not be more than pool_max_conns, which is ${poolSize}`,
      elsewhereOf(index, 'pool_min_conns'),
    )
  const name = take('name', (one, elsewhere) => reader.take(one, connectionName(), elsewhere))
  // A connection that is only named is named after its database.
  const database = text('database') ?? name ?? 'postgres'
  const sslcert = file('sslcert')
  const sslkey = file('sslkey')
  if ((sslcert === undefined) !== (sslkey === undefined))
    reader.refuse(
      key(sslcert === undefined ? 'sslkey' : 'sslcert'),
      'must be given together with its key or certificate',
    )
  return {
    name: name ?? database,
    host: text('host') ?? 'localhost',
    port: take('port', (one, elsewhere) => reader.take(one, port(), elsewhere)) ?? 5432,
    database,
    user: text('user') ?? 'postgres',
    password: take('password', (one, elsewhere) => reader.secret(one, secret(), elsewhere)),
    sslmode: take('sslmode', (one, elsewhere) => reader.take(one, modes, elsewhere)) ?? 'prefer',
    sslrootcert: file('sslrootcert'),
    sslcert,
    sslkey,
    channelBinding: take('channel_binding', (one, elsewhere) => reader.take(one, bindings, elsewhere)) ?? 'prefer',
    allowWrites: flag('allow_writes'),
    allowUnconfirmed: flag('allow_unconfirmed'),
    allowPrivilegedLogin: flag('allow_privileged_login'),
    showSecrets: flag('show_secrets'),
    poolSize,
    poolMinimum,
    poolIdleMs: time('pool_max_conn_idle_time', 1_000, 86_400_000) ?? 1_800_000,
    poolLifetimeMs: time('pool_max_conn_lifetime', 1_000, 86_400_000) ?? 3_600_000,
    poolCheckMs: time('pool_health_check_period', 1_000, 3_600_000) ?? 30_000,
    connectTimeoutMs: time('connect_timeout', 100, 600_000) ?? 10_000,
    statementTimeoutMs: time('statement_timeout', 100, 86_400_000) ?? 30_000,
    metadataMs: time('metadata_ttl', 0, 86_400_000) ?? 300_000,
    availableToUsers: take('available_to_users', (one, elsewhere) => reader.take(one, userNames(), elsewhere)),
  }
}

export function countDatabases(reader: SettingsReader): number {
  const ofFirst = telling.some(field => reader.isGiven(`databases[0].${field}`, elsewhereOf(0, field)))
  return Math.max(reader.count('databases'), highestNumber(reader.environment), ofFirst ? 1 : 0)
}

export function readDatabases(reader: SettingsReader): DatabaseSettings[] {
  const count = countDatabases(reader)
  if (count === 0) {
    reader.refuse('databases', 'must have a database: in the file, or by ESPALIER_DB_HOST, or by PGHOST')
    return []
  }
  if (count > mostDatabases) {
    reader.refuse('databases', `must have at most ${mostDatabases} databases`)
    return []
  }
  const databases = Array.from({ length: count }, (_, index) => readDatabase(reader, index))
  for (const [index, { name }] of databases.entries()) {
    const first = databases.findIndex(other => other.name === name)
    if (first === index) continue
    const rule = `must be another name than that of databases[${first}]; without one it is the name of the database`
    reader.refuse(`databases[${index}].name`, rule, elsewhereOf(index, 'name'))
  }
  return databases
}
