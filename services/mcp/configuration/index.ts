/**
 * The configuration of the tool server: command line over environment over file over defaults. It promises settings that can be used, or all
 * that is wrong at once, each with its place and its rule, and never with a value, which may be a secret.
 */
import { createHash, randomBytes } from 'node:crypto'
import { ConfigurationError } from '../../configuration/errors.ts'
import { choice, text, truth, whole } from '../../configuration/values.ts'
import { type CustomDefinitions, readDefinitions } from '../custom/read.ts'
import { readDisabled } from './builtins.ts'
import { withoutConnectionStrings } from './connection-strings.ts'
import { countDatabases, readDatabases } from './databases.ts'
import { readHttp } from './http.ts'
import { path } from './kinds.ts'
import { readEmbedding, readKnowledgebase, readLlm } from './providers.ts'
import { type McpSources, SettingsReader } from './reader.ts'
import type { DatabaseSettings, McpSettings } from './types.ts'

const sealingKeyBytes = 32
const megabyte = 1_048_576

function readLimits(reader: SettingsReader): McpSettings['limits'] {
  const limit = (name: string, least: number, most: number) =>
    reader.take(`limits.${name}`, whole(least, most), { variables: [`LIMIT_${name.toUpperCase()}`] })
  const resultTokens = limit('result_tokens', 200, 1_000_000)
  return {
    resultTokens: resultTokens ?? 10_000,
    queryTokens: limit('query_tokens', 200, 1_000_000) ?? resultTokens ?? 50_000,
    resultBytes: limit('result_bytes', 10_000, 1_024 * megabyte) ?? 8 * megabyte,
    requestBytes: limit('request_bytes', 1_000, 1_024 * megabyte) ?? 10 * megabyte,
  }
}

/** Of all replicas the same, where one is given: what one has sealed another opens. */
function readSealingKey(reader: SettingsReader): Uint8Array {
  const kind = text('must have 32 to 4096 characters', value => value.length >= 32 && value.length <= 4_096)
  const secret = reader.secret('secret', kind, { variables: ['SECRET'] })
  if (secret === undefined) return new Uint8Array(randomBytes(sealingKeyBytes))
  return new Uint8Array(createHash('sha256').update('espalier mcp sealing key\0').update(secret).digest())
}

function readLogLevel(reader: SettingsReader): string {
  const levels = choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent')
  const level = reader.take('log_level', levels, { variables: ['LOG'] }) ?? 'info'
  const isDebugging = reader.take('-debug', truth(), { flag: 'debug' }) ?? false
  return isDebugging ? 'debug' : level
}

function readCustom(reader: SettingsReader): CustomDefinitions | undefined {
  const file = reader.file('custom_definitions_path', path(), { variables: ['CUSTOM_DEFINITIONS_PATH'] })
  if (file === undefined) return undefined
  const { definitions, problems } = readDefinitions(file.text, file.path)
  reader.problems.push(...problems)
  return definitions
}

/** `isUsable`: of the databases as connection strings name them. */
function readerOf(sources: McpSources): { reader: SettingsReader; isUsable: boolean } {
  const { environment, wrong } = withoutConnectionStrings(sources.environment)
  const reader = new SettingsReader({ ...sources, environment })
  for (const { key, variable, rule } of wrong) reader.refuse(key, rule, { variables: [variable] })
  return { reader, isUsable: wrong.length === 0 }
}

function readAll(sources: McpSources): { settings: McpSettings; reader: SettingsReader } {
  const { reader, isUsable } = readerOf(sources)
  const custom = readCustom(reader)
  const settings: McpSettings = {
    http: readHttp(reader),
    // What cannot be read of a database is told, not that there is none.
    databases: isUsable ? readDatabases(reader) : [],
    embedding: readEmbedding(reader),
    llm: readLlm(reader),
    knowledgebase: readKnowledgebase(reader),
    dataDirectory: reader.take('data_dir', path(), { variables: ['DATA_DIR'] }) ?? '/var/lib/espalier/mcp',
    ...(custom && { custom }),
    disabled: readDisabled(reader),
    limits: readLimits(reader),
    sealingKey: readSealingKey(reader),
    logLevel: readLogLevel(reader),
    auditStatements:
      reader.take('audit.statements', choice('none', 'reads', 'all'), { variables: ['AUDIT_STATEMENTS'] }) ?? 'reads',
  }
  reader.refuseUnknown()
  return { settings, reader }
}

/** @throws ConfigurationError with everything that is wrong */
export function readMcpSettings(sources: McpSources): McpSettings {
  const { settings, reader } = readAll(sources)
  if (reader.problems.length > 0) throw new ConfigurationError(reader.problems)
  return settings
}

/**
 * The databases as they are configured now, for a server that runs: the rest is read at its start.
 * @throws ConfigurationError with everything that is wrong, of the rest too
 */
export const readMcpDatabases = (sources: McpSources): readonly DatabaseSettings[] => readMcpSettings(sources).databases

/** What the configured databases are called, for commands; none where none is configured. @throws ConfigurationError */
export function readDatabaseNames(sources: McpSources): readonly string[] {
  const { reader, isUsable } = readerOf(sources)
  const databases = isUsable && countDatabases(reader) > 0 ? readDatabases(reader) : []
  if (reader.problems.length > 0) throw new ConfigurationError(reader.problems)
  return databases.map(({ name }) => name)
}

/** Where tokens and users are, for commands that need no database. @throws ConfigurationError */
export function readCredentialPaths(sources: McpSources): { readonly tokenFile: string; readonly userFile: string } {
  const reader = new SettingsReader({ ...sources, flags: new Map([...sources.flags, ['http', true]]) })
  const http = readHttp(reader)
  const problems = reader.problems.filter(({ key }) => /^the file$|^http\.auth\./.test(key))
  if (http === undefined || problems.length > 0) throw new ConfigurationError(problems)
  return http.authentication
}
