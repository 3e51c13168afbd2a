/**
 * The configuration of the REST data service, in PostgREST's format and with its keys (PostgREST's documentation,
 * "Configuration"). Loads it from a file, the environment and the database, checks it, and prints it without secrets.
 */
import { SettingError } from '../../authentication/errors.ts'
import { parseSecret } from '../../authentication/keys.ts'
import { parseRolePath } from '../../authentication/role-path.ts'
import type { Settings, Sources as SourcesOf } from '../../configuration/declaration.ts'
import { describeSettings, exampleFile } from '../../configuration/describe.ts'
import { ConfigurationError } from '../../configuration/errors.ts'
import { type Checks, type Loaded, load } from '../../configuration/loader.ts'
import { decodeSecret } from '../../configuration/secrets.ts'
import type { Form } from '../../configuration/sources.ts'
import { parseDocument } from '../../configuration/syntax.ts'
import { AddressError, connectionAddress } from '../../postgres/address.ts'
import { keys } from './keys.ts'

export { ConfigurationError }

/** `file`: the text of the configuration file. */
export type Sources = Omit<SourcesOf, 'file'> & { readonly file?: string }

export type RestConfiguration = Omit<Settings<typeof keys>, 'jwtSecret' | 'jwtSecretIsBase64'> & {
  /** The configured text or the content of the named file. Bytes if the text is Base64. */
  readonly jwtSecret?: string | Uint8Array
}

const form: Form = {
  parse: ({ text }, environment) => parseDocument(text, environment, ['app.settings']),
  environmentPrefix: 'ESPALIER_REST_',
  databasePrefixes: ['pgrst.', 'rst.'],
  emptyUnsets: true,
}

export const loadKeys = ({ file, ...sources }: Sources): Loaded<typeof keys> =>
  load(keys, form, { ...sources, file: file === undefined ? undefined : { text: file } })

/**
 * @throws ConfigurationSyntaxError if the file's syntax is wrong
 * @throws ConfigurationError with all other problems
 */
export function loadConfiguration({ database, ...sources }: Sources): RestConfiguration {
  const alone = loadKeys(sources)
  const loaded = database !== undefined && alone.settings.dbConfig ? loadKeys({ ...sources, database }) : alone
  const { refuse, check } = loaded
  const { jwtSecret: written, jwtSecretIsBase64, ...settings } = loaded.settings
  // Rules about several keys are checked only if each value is valid.
  if (!loaded.isRight) check()
  checkTogether(loaded)
  checkRead(loaded, 'db-uri', () => connectionAddress(settings.dbUri, sources.environment))
  const jwtSecret = jwtSecretIsBase64 && written !== undefined ? decodeSecret(written) : written
  if (jwtSecret === undefined && written !== undefined)
    refuse('jwt-secret', 'must be Base64 (RFC 4648) in one line, since jwt-secret-is-base64 is set')
  if (jwtSecret !== undefined) checkRead(loaded, 'jwt-secret', () => parseSecret(jwtSecret))
  checkRead(loaded, 'jwt-role-claim-key', () => parseRolePath(settings.jwtRoleClaimKey))
  check()
  return { ...settings, jwtSecret }
}

/** Reports keys that are valid, but not together. */
function checkTogether({ settings, refuse }: Loaded<typeof keys>): void {
  const { serverPort, serverUnixSocket, serverReuseport, adminServerPort, serverWorkers, dbPool } = settings
  if (serverUnixSocket === undefined && adminServerPort !== 0 && adminServerPort === serverPort)
    refuse('admin-server-port', 'must not be the same as server-port')
  if (serverReuseport && serverUnixSocket === undefined && serverPort === 0 && serverWorkers > 1)
    refuse(
      'server-port',
      'must not be 0 with server-reuseport and several workers: each worker would use a different port',
    )
  if (serverWorkers > dbPool) refuse('server-workers', 'must not be more than db-pool: each worker needs a connection')
}

/** Refuses at the start a configuration that would fail at the first request. */
function checkRead({ refuse }: Checks, name: keyof typeof keys, read: () => unknown): void {
  try {
    read()
  } catch (error) {
    if (error instanceof SettingError) refuse(name, error.rule)
    else if (error instanceof AddressError) refuse(name, error.message)
    else throw error
  }
}

/** Prints the configuration in the form of its file, without secrets. The service can load the output. */
export const describeConfiguration = (configuration: RestConfiguration): string =>
  // A masked secret is not Base64.
  describeSettings(keys, { ...configuration, jwtSecret: configuration.jwtSecret && '', jwtSecretIsBase64: false })

/** A configuration file: each key has its default, is commented out, and follows its description. */
export const exampleConfiguration = (): string => exampleFile(keys)
