/**
 * The configuration of the tool server. The command line overrides the environment, the environment overrides the file,
 * and the file overrides defaults. Returns settings, or reports all problems at once. A problem has its location and
 * its rule, but never the value, which may be a secret.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Settings, Sources } from '../../configuration/declaration.ts'
import { ConfigurationError, type Problem } from '../../configuration/errors.ts'
import { type Checks, type Loaded, load } from '../../configuration/loader.ts'
import { readNamedFile } from '../../configuration/secrets.ts'
import type { Form } from '../../configuration/sources.ts'
import { parseYaml } from '../../configuration/yaml.ts'
import type { PeerSettings } from '../../http/peers/types.ts'
import { type Address, AddressError } from '../../postgres/address.ts'
import { ownAddress } from '../../postgres/own-tables.ts'
import { type CustomDefinitions, readDefinitions } from '../custom/read.ts'
import { withoutConnectionStrings } from './connection-strings.ts'
import { databasesOf } from './databases.ts'
import { withoutDots } from './dotted.ts'
import { keys } from './keys.ts'
import { embeddingOf, knowledgebaseOf, llmOf } from './providers.ts'
import type { DatabaseSettings, HttpSettings, McpSettings } from './types.ts'

const sealingKeyBytes = 32
const defaultPort = 8080

/**
 * Variables whose names differ from their keys: names of database variables contain a number, and some sections have a
 * shorter name.
 */
export function variablesOf(name: string): string[] {
  const [, index = '', field] = /^databases\[(\d+)\]\.(\w+)$/.exec(name) ?? []
  const upper = (field ?? name).replaceAll('.', '_').toUpperCase()
  if (field !== undefined) return [`DB_${Number(index) + 1}_${upper}`, ...(index === '0' ? [`DB_${upper}`] : [])]
  return [
    upper
      .replace(/^HTTP_(?=TLS|AUTH)/, '')
      .replace(/^HTTP_CLIENT_IP/, 'HTTP')
      .replace(/^KNOWLEDGEBASE/, 'KB')
      .replace(/^LIMITS/, 'LIMIT'),
  ]
}

const form: Form = {
  parse: file => withoutDots(parseYaml(file)),
  environmentPrefix: 'ESPALIER_',
  variablesOf,
  emptyIsAbsent: true,
}

type ReadSettings = Settings<typeof keys>

function peerOf({ http: { peer, tls } }: ReadSettings, { refuse, isSet: isGiven }: Checks): PeerSettings | undefined {
  const { address, secret } = peer
  if (isGiven('http.peer.address') !== isGiven('http.peer.secret'))
    refuse(`http.peer.${address === undefined ? 'address' : 'secret'}`, 'is required: replicas need both')
  if (address === undefined || secret === undefined) return undefined
  if (tls.enabled)
    refuse('http.tls.enabled', 'must be false with http.peer: replicas connect to each other without TLS')
  return { address, secret }
}

/** undefined: the server uses stdio. All keys are checked in both cases. */
function httpOf(settings: ReadSettings, checks: Checks): HttpSettings | undefined {
  const { http, noAuth } = settings
  const { refuse } = checks
  const peer = peerOf(settings, checks)
  const { tls, address, auth } = http
  if (tls.enabled && tls.certFile === undefined) refuse('http.tls.cert_file', 'is required with TLS')
  if (tls.enabled && tls.keyFile === undefined) refuse('http.tls.key_file', 'is required with TLS')
  if (!http.enabled) return undefined
  const { certFile = '', keyFile = '', chainFile } = tls
  const { rateLimitMaxAttempts, maxFailedAttemptsBeforeLockout, ...same } = auth
  const enabled = auth.enabled && !noAuth
  return {
    // Without authentication, the server listens only on this machine by default.
    host: address === undefined ? (enabled ? '*' : '127.0.0.1') : address.host || '*',
    port: address?.port ?? defaultPort,
    tls: tls.enabled ? { certificateFile: certFile, keyFile, chainFile } : undefined,
    allowedOrigins: http.allowedOrigins,
    trustedProxies: http.clientIp.trustedProxies,
    peer,
    authentication: {
      ...same,
      enabled,
      rateLimitMaximumAttempts: rateLimitMaxAttempts,
      maximumFailedAttemptsBeforeLockout: maxFailedAttemptsBeforeLockout,
    },
  }
}

/**
 * If a secret is set, all replicas derive the same key. So each replica can open the state that another replica sealed.
 */
function sealingKeyOf({ secret }: ReadSettings): Uint8Array {
  if (secret === undefined) return new Uint8Array(randomBytes(sealingKeyBytes))
  return new Uint8Array(createHash('sha256').update('espalier mcp sealing key\0').update(secret).digest())
}

function stateOf({ state }: ReadSettings, { refuse, isSet: isGiven }: Checks): Address | undefined {
  const { url, password, sslrootcert } = state
  if (url === undefined) {
    for (const name of ['state.password', 'state.sslrootcert'])
      if (isGiven(name)) refuse(name, 'must be set together with state.url')
    return undefined
  }
  try {
    return ownAddress(url, { password, sslrootcert })
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    return void refuse('state.url', error.message)
  }
}

function customOf(loaded: Loaded<typeof keys>, { readFile }: Sources): CustomDefinitions | undefined {
  const path = loaded.settings.customDefinitionsPath
  if (path === undefined) return undefined
  const read = readNamedFile(path, readFile)
  if (read.kind === 'refused') return void loaded.refuse('custom_definitions_path', read.rule)
  const { definitions, problems } = readDefinitions(read.text, path)
  loaded.problems.push(...problems)
  return definitions
}

function loadKeys(sources: Sources): { loaded: Loaded<typeof keys>; databases: DatabaseSettings[] } {
  const { environment, wrong } = withoutConnectionStrings(sources.environment)
  const loaded = load(keys, form, { ...sources, environment })
  loaded.problems.push(...wrong)
  // If a connection string is invalid, report only that, and not a missing database too.
  return { loaded, databases: wrong.length > 0 ? [] : databasesOf(loaded.settings.databases, loaded) }
}

/** @throws ConfigurationError with all problems */
export function readMcpSettings(sources: Sources): McpSettings {
  const { loaded, databases } = loadKeys(sources)
  const { settings, refuse, check } = loaded
  const { builtins, limits } = settings
  const custom = customOf(loaded, sources)
  const read: McpSettings = {
    http: httpOf(settings, loaded),
    databases,
    embedding: embeddingOf(settings, refuse),
    llm: llmOf(settings, refuse),
    knowledgebase: knowledgebaseOf(settings, refuse),
    dataDirectory: settings.dataDir,
    state: stateOf(settings, loaded),
    ...(custom && { custom }),
    disabled: new Set(
      Object.values(builtins).flatMap(table =>
        Object.entries(table).flatMap(([name, is]) => (is === false ? [name] : [])),
      ),
    ),
    limits: {
      resultTokens: limits.resultTokens ?? 10_000,
      queryTokens: limits.queryTokens ?? limits.resultTokens ?? 50_000,
      resultBytes: limits.resultBytes,
      requestBytes: limits.requestBytes,
    },
    sealingKey: sealingKeyOf(settings),
    logLevel: settings.debug ? 'debug' : settings.logLevel,
    auditStatements: settings.audit.statements,
  }
  check()
  return read
}

const isOf = (prefix: RegExp) => (problem: Problem) => prefix.test(problem.key)

/** The names of the configured databases, for commands; empty if none is configured. @throws ConfigurationError */
export function readDatabaseNames(sources: Sources): readonly string[] {
  const { loaded, databases } = loadKeys(sources)
  const isNone = loaded.settings.databases.length === 0
  const problems = loaded.problems.filter(isOf(isNone ? /^(the file$|databases\[)/ : /^(the file$|databases)/))
  if (problems.length > 0) throw new ConfigurationError(problems)
  return databases.map(({ name }) => name)
}

/** The paths of tokens and users, for commands that need no database. @throws ConfigurationError */
export function readCredentialPaths(sources: Sources): { readonly tokenFile: string; readonly userFile: string } {
  const { settings, problems } = load(keys, form, sources)
  const own = problems.filter(isOf(/^the file$|^http\.auth\./))
  if (own.length > 0) throw new ConfigurationError(own)
  return settings.http.auth
}
