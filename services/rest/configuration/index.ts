/**
 * The configuration of the REST data service, in PostgREST's format and keys: read from a file, the environment and the database,
 * checked, and printed back without its secrets. Reads nothing itself but what it is handed.
 */
import { SettingError } from '../../authentication/errors.ts'
import { parseSecret } from '../../authentication/keys.ts'
import { parseRolePath } from '../../authentication/role-path.ts'
import { describeSettings } from '../../configuration/describe.ts'
import { ConfigurationError } from '../../configuration/errors.ts'
import { type Reading, readSettings, type Sources } from '../../configuration/reader.ts'
import { decodeSecret } from '../../configuration/secrets.ts'
import { writeBinding } from '../../configuration/syntax.ts'
import { AddressError, connectionAddress } from '../../postgres/address.ts'
import { form, openPrefix } from './form.ts'
import { fields, keys } from './keys.ts'
import type { RestConfiguration } from './types.ts'

export type { RestConfiguration, Sources }
export { ConfigurationError }

/**
 * @throws ConfigurationSyntaxError where the file is not of the format.
 * @throws ConfigurationError with everything else that is wrong.
 */
export function loadConfiguration(sources: Sources): RestConfiguration {
  const reading = readSettings(form, sources)
  const { problems, problem } = reading
  const { jwtSecret: written, jwtSecretIsBase64, ...settings } = reading.settings
  checkTogether(reading)
  checkRead(reading, 'dbUri', () => connectionAddress(settings.dbUri, sources.environment))
  const jwtSecret = jwtSecretIsBase64 && written !== undefined ? decodeSecret(written) : written
  if (jwtSecret === undefined && written !== undefined) {
    problems.push(problem('jwtSecret', 'must be Base64 (RFC 4648) in one line, as jwt-secret-is-base64 says'))
  }
  if (jwtSecret !== undefined) checkRead(reading, 'jwtSecret', () => parseSecret(jwtSecret))
  checkRead(reading, 'jwtRoleClaimKey', () => parseRolePath(settings.jwtRoleClaimKey))
  if (problems.length > 0) throw new ConfigurationError(problems)
  return { ...settings, jwtSecret, appSettings: reading.open }
}

type RestReading = Reading<typeof keys>

/** Keys that are right each for itself, and not together. */
function checkTogether({ settings, problems, problem }: RestReading): void {
  const { serverPort, serverUnixSocket, serverReuseport, adminServerPort, serverWorkers, dbPool } = settings
  if (serverUnixSocket === undefined && adminServerPort !== 0 && adminServerPort === serverPort) {
    problems.push(problem('adminServerPort', 'must not be the same as server-port'))
  }
  if (serverReuseport && serverUnixSocket === undefined && serverPort === 0 && serverWorkers > 1) {
    problems.push(problem('serverPort', 'must not be 0 with server-reuseport and several workers: each takes its own'))
  }
  if (serverWorkers > dbPool) {
    problems.push(problem('serverWorkers', 'must not be more than db-pool: each worker needs a connection'))
  }
}

/**
 * What a connection string asks for, and what tokens are judged by, must be what the service can do: whoever starts it is to be told, and not the first request.
 */
function checkRead({ problems, problem }: RestReading, field: keyof typeof keys, read: () => unknown): void {
  try {
    read()
  } catch (error) {
    if (error instanceof SettingError) problems.push(problem(field, error.rule))
    else if (error instanceof AddressError) problems.push(problem(field, error.message))
    else throw error
  }
}

/** In the form of its file, without its secrets; what is printed can be loaded again. */
export function describeConfiguration(configuration: RestConfiguration): string {
  const { appSettings, ...settings } = configuration
  // A masked secret is not Base64.
  const values = { ...settings, jwtSecretIsBase64: false }
  return describeSettings(form.catalogue, values, { prefix: openPrefix, names: Object.keys(appSettings) })
}

/** A file with every key at its default, as a comment, below what the key means. */
export const exampleConfiguration = (): string =>
  fields()
    .map(field => `# ${keys[field].meaning}\n# ${writeBinding(keys[field].name, keys[field].default ?? '')}\n`)
    .join('\n')
