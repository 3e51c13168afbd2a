/**
 * The configuration of the REST data service, in PostgREST's format and keys: read from a file, the environment and the database,
 * checked, and printed back without its secrets. Reads nothing itself but what it is handed.
 */
import { z } from 'zod'
import { SettingError } from '../../authentication/errors.ts'
import { parseSecret } from '../../authentication/keys.ts'
import { parseRolePath } from '../../authentication/role-path.ts'
import { ConfigurationError, ConfigurationSyntaxError, type Problem, type Source } from '../../configuration/errors.ts'
import { decodeSecret, type ReadFile, readNamedFile } from '../../configuration/secrets.ts'
import { type Gathered, gather } from '../../configuration/sources.ts'
import { parseFile, type Scalar } from '../../configuration/syntax.ts'
import { MAX_VALUE_LENGTH } from '../../configuration/values.ts'
import { AddressError, connectionAddress } from '../../postgres/address.ts'
import { type Field, fields, keys } from './keys.ts'
import type { RestConfiguration, Settings } from './types.ts'

export { describeConfiguration } from '../../configuration/describe.ts'
export type { RestConfiguration }
export { ConfigurationError, ConfigurationSyntaxError }

export type Sources = {
  /** Text of the configuration file. */
  file?: string
  environment: Record<string, string | undefined>
  /** Settings of the login role, by name: `rst.db_schemas`, or `pgrst.db_schemas`, which the first one beats. */
  database?: Record<string, string>
  readFile: ReadFile
}

type Table = typeof keys
/** Object.fromEntries forgets which field has which schema; the table it is made from does not. */
const shape = Object.fromEntries(fields().map(field => [field, keys[field].schema])) as {
  [F in Field]: Table[F]['schema']
}
const settingsSchema = z.object(shape)

/** What Postgres takes as the name of a setting, as far as a file and the environment can both write it. */
const settingName = /^[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*$/
const MAX_SETTING_NAME = 200
const MAX_APP_SETTINGS = 1_000

/**
 * @throws ConfigurationSyntaxError where the file is not of the format.
 * @throws ConfigurationError with everything else that is wrong.
 */
export function loadConfiguration({ file = '', environment, database = {}, readFile }: Sources): RestConfiguration {
  const gathered = gather(parseFile(file, environment), environment, database)
  const { values, problems } = readValues(gathered, readFile)
  problems.push(...gathered.problems, ...appSettingProblems(gathered))
  const parsed = settingsSchema.safeParse(values)
  if (!parsed.success) throw new ConfigurationError([...problems, ...brokenRules(parsed.error, gathered)])
  problems.push(...contradictions(parsed.data, gathered), ...addressProblems(parsed.data, gathered, environment))
  const { jwtSecret: written, jwtSecretIsBase64, ...settings } = parsed.data
  const jwtSecret = jwtSecretIsBase64 && written !== undefined ? decodeSecret(written) : written
  if (jwtSecret === undefined && written !== undefined) {
    problems.push(problem('jwtSecret', gathered, 'must be Base64 (RFC 4648) in one line, as jwt-secret-is-base64 says'))
  }
  if (jwtSecret !== undefined) problems.push(...tokenProblems('jwtSecret', gathered, () => parseSecret(jwtSecret)))
  problems.push(...tokenProblems('jwtRoleClaimKey', gathered, () => parseRolePath(settings.jwtRoleClaimKey)))
  if (problems.length > 0) throw new ConfigurationError(problems)
  return { ...settings, jwtSecret, appSettings: appSettings(gathered) }
}

/** What the schemas are to judge, by field: what was given, or else the default. */
function readValues(gathered: Gathered, readFile: ReadFile) {
  const values: Partial<Record<Field, Scalar>> = {}
  const problems: Problem[] = []
  for (const field of fields()) {
    const key = keys[field]
    const given = gathered.settings.get(field)
    // An empty text unsets a key, as in PostgREST. A list may be empty, and an empty one says so.
    const isUnset = given === undefined || (given.value === '' && key.type !== 'list')
    values[field] = isUnset ? key.default : given.value
    if (isUnset || !key.inFile || typeof given.value !== 'string' || !given.value.startsWith('@')) continue
    const read = readSecretFile(given.value.slice(1), given.source, readFile)
    values[field] = read.kind === 'text' ? read.text : key.default
    if (read.kind === 'refused') problems.push(problem(field, gathered, read.rule))
  }
  return { values, problems }
}

/** Whoever may set keys in the database may not have files of the server read. */
function readSecretFile(path: string, source: Source, readFile: ReadFile) {
  if (source.kind !== 'database') return readNamedFile(path, readFile)
  return { kind: 'refused' as const, rule: 'must not name a file from within the database' }
}

function problem(field: Field, { settings }: Gathered, rule: string): Problem {
  return { key: keys[field].name, source: settings.get(field)?.source ?? { kind: 'default' }, rule }
}

function brokenRules(error: z.ZodError, gathered: Gathered): Problem[] {
  const broken = new Set(error.issues.map(issue => issue.path[0]))
  return fields()
    .filter(field => broken.has(field))
    .map(field => problem(field, gathered, keys[field].rule))
}

/** Keys that are right each for itself, and not together. */
function contradictions(settings: Settings, gathered: Gathered): Problem[] {
  const problems: Problem[] = []
  const { serverPort, serverUnixSocket, adminServerPort, serverWorkers, dbPool } = settings
  if (serverUnixSocket === undefined && adminServerPort !== 0 && adminServerPort === serverPort) {
    problems.push(problem('adminServerPort', gathered, 'must not be the same as server-port'))
  }
  if (serverWorkers > dbPool) {
    problems.push(problem('serverWorkers', gathered, 'must not be more than db-pool: each worker needs a connection'))
  }
  return problems
}

/** What tokens are judged by is read here too: whoever starts the service is to be told, and not the first one with a token. */
function tokenProblems(field: Field, gathered: Gathered, read: () => unknown): Problem[] {
  try {
    read()
    return []
  } catch (error) {
    if (error instanceof SettingError) return [problem(field, gathered, error.rule)]
    throw error
  }
}

/** What the connection string asks for, together with libpq's variables, must be what the service can do. */
function addressProblems({ dbUri }: Settings, gathered: Gathered, environment: Sources['environment']): Problem[] {
  try {
    connectionAddress(dbUri, environment)
    return []
  } catch (error) {
    if (error instanceof AddressError) return [problem('dbUri', gathered, error.message)]
    throw error
  }
}

function appSettingProblems({ appSettings }: Gathered): Problem[] {
  const problems: Problem[] = []
  for (const [name, { value, source }] of appSettings) {
    const key = `app.settings.${name.slice(0, MAX_SETTING_NAME)}`
    if (name.length > MAX_SETTING_NAME || !settingName.test(name)) {
      problems.push({ key, source, rule: 'must be a name that Postgres takes: letters, digits and underscores' })
    } else if (String(value).length > MAX_VALUE_LENGTH || String(value).includes('\0')) {
      problems.push({ key, source, rule: `must be at most ${MAX_VALUE_LENGTH} characters, none of them zero` })
    }
  }
  const last = [...appSettings.values()][MAX_APP_SETTINGS]
  if (last) problems.push({ key: 'app.settings.*', source: last.source, rule: `must be at most ${MAX_APP_SETTINGS}` })
  return problems
}

function appSettings({ appSettings }: Gathered): Record<string, string> {
  return Object.fromEntries([...appSettings].map(([name, { value }]) => [name, String(value)]))
}
