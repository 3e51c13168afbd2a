/**
 * The configuration of the retrieval server: one YAML file, with `${VARIABLE}` from the environment. Returns valid
 * settings, or reports all errors at once. An error has its key and its rule, but never the value, which may be a
 * secret.
 */
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { Environment, Settings, Sources } from '../../configuration/declaration.ts'
import { readConfigurationFile } from '../../configuration/file.ts'
import { type Checks, load } from '../../configuration/loader.ts'
import type { ReadFile } from '../../configuration/secrets.ts'
import { parseYaml } from '../../configuration/yaml.ts'
import { type ApiKeys, keysOfFiles, surroundingKeys } from './api-keys.ts'
import { addressOf } from './database.ts'
import { completionOf, type EndpointContext, embeddingOf, joined, rerankOf } from './endpoints.ts'
import { keys, type pipeline } from './keys.ts'
import type { PipelineSettings, RagSettings, ServerSettings, TableSettings } from './types.ts'

type ReadSettings = Settings<typeof keys>
type ReadPipeline = Settings<typeof pipeline>
type InFolder = (path: string) => string

/** Locates and reads the files that the configuration names. */
class Files {
  readonly #folder: string
  readonly #home: string
  readonly #read: ReadFile

  constructor(path: string, environment: Environment, read: ReadFile) {
    this.#folder = dirname(resolve(path))
    this.#home = environment.HOME || homedir()
    this.#read = read
  }

  readonly inFolder = (path: string): string =>
    path.startsWith('~/') ? join(this.#home, path.slice(2)) : resolve(this.#folder, path)

  readonly read: ReadFile = path => this.#read(this.inFolder(path))
}

/** `onFile`: called with the path of each file that is read or missing, because the settings depend on these files. */
type Reading = { readonly environment: Environment; readonly onFile?: (path: string) => void }

/** @throws Error if the file cannot be read; ConfigurationError with all errors */
export function readRagSettings(path: string, { environment, onFile }: Reading): RagSettings {
  onFile?.(resolve(path))
  const readFile = (name: string) => {
    onFile?.(name)
    return readFileSync(name)
  }
  return ragSettings({ ...readConfigurationFile(path), environment, readFile })
}

type RagSources = {
  readonly path: string
  readonly text: string
  readonly environment: Environment
  readonly readFile: ReadFile
}

/** @throws ConfigurationError */
export function ragSettings({ path, text, environment, readFile }: RagSources): RagSettings {
  const files = new Files(path, environment, readFile)
  const sources: Sources = { file: { path, text }, environment, readFile: files.read }
  const checks = load(keys, { parse: parseYaml }, sources)
  const { settings: read } = checks
  const server = serverOf(read, files.inFolder, checks)
  const readKeys = (table: ReadPipeline['apiKeys'], location: string) =>
    keysOfFiles(table, location, files.read, checks.refuse)
  const keysOfServer: ApiKeys = {
    ...surroundingKeys(environment, files.read),
    ...readKeys(read.apiKeys, 'api_keys'),
    ...readKeys(read.defaults.apiKeys, 'defaults.api_keys'),
  }
  const pipelines = read.pipelines.flatMap((one, index): PipelineSettings[] => {
    const location = `pipelines[${index}]`
    const apiKeys = { ...keysOfServer, ...readKeys(one.apiKeys, `${location}.api_keys`) }
    const headers = joined(read.defaults.llmHeaders, one.llmHeaders)
    const settings = pipelineOf(one, location, { defaults: read.defaults, headers, apiKeys, checks }, files.inFolder)
    return settings === undefined ? [] : [settings]
  })
  checkNames(read, checks)
  checks.check()
  return { server, pipelines, logLevel: read.logLevel }
}

function checkNames({ pipelines }: ReadSettings, { refuse, isSet: isGiven, problems }: Checks): void {
  const isRefused = problems.some(({ key }) => key === 'pipelines')
  if (pipelines.length === 0 && !isRefused) refuse('pipelines', 'must have at least one pipeline')
  for (const [index, { name }] of pipelines.entries()) {
    const location = `pipelines[${index}].name`
    if (name === undefined && !isGiven(location)) refuse(location, 'must be given')
    const first = pipelines.findIndex(other => other.name === name)
    if (name !== undefined && first !== index) refuse(location, `must differ from the name of pipelines[${first}]`)
  }
}

function serverOf({ server }: ReadSettings, inFolder: InFolder, { isSet: isGiven, refuse }: Checks): ServerSettings {
  const { tls, cors, requestTimeout, streamTimeout } = server
  const { enabled = isGiven('server.tls'), certFile, keyFile } = tls
  for (const [name, file] of [
    ['cert_file', certFile],
    ['key_file', keyFile],
  ] as const)
    if (enabled && file === undefined && !isGiven(`server.tls.${name}`))
      refuse(`server.tls.${name}`, 'must be given if TLS is on')
  const { allowedOrigins } = cors
  if (cors.enabled && allowedOrigins.length === 0)
    refuse('server.cors.allowed_origins', 'must have an origin, or * for any, if CORS is on')
  return {
    host: server.listenAddress,
    port: server.port,
    allowedHosts: server.allowedHosts.map(name => name.toLowerCase()),
    requestTimeoutMs: requestTimeout,
    streamTimeoutMs: streamTimeout,
    tls: enabled ? { certificateFile: inFolder(certFile ?? ''), keyFile: inFolder(keyFile ?? '') } : undefined,
    cors: cors.enabled ? { allowedOrigins } : undefined,
  }
}

/** Returns undefined if the pipeline is invalid. */
function pipelineOf(
  read: ReadPipeline,
  location: string,
  around: EndpointContext,
  inFolder: InFolder,
): PipelineSettings | undefined {
  const { checks, defaults } = around
  const address = addressOf(read.database, `${location}.database`, inFolder, checks)
  const tables = tablesOf(read, location, checks)
  const embedding = embeddingOf(read, location, around)
  const completion = completionOf(read, location, around)
  const rerank = rerankOf(read, location, around)
  const { name, search } = read
  if (name === undefined || address === undefined || embedding === undefined || completion === undefined)
    return undefined
  return {
    name,
    description: read.description,
    address,
    poolSize: read.database.poolMaxConns,
    tables,
    embedding,
    completion,
    rerank,
    tokenBudget: read.tokenBudget ?? defaults.tokenBudget,
    contextTokens: read.contextTokens ?? defaults.contextTokens,
    topN: (rerank && read.rerank.topK) ?? read.topN ?? defaults.topN,
    systemPrompt: read.systemPrompt,
    hybridEnabled: search.hybridEnabled,
    vectorWeight: search.vectorWeight,
    minSimilarity: search.minSimilarity,
    exactTimeoutMs: search.exactTimeout,
    allowSources: read.allowIncludeSources,
    maximumConcurrentRequests: read.maxConcurrentRequests,
  }
}

function tablesOf(
  { tables }: ReadPipeline,
  location: string,
  { isSet: isGiven, refuse, problems }: Checks,
): TableSettings[] {
  if (tables.length === 0 && !problems.some(({ key }) => key === `${location}.tables`))
    refuse(`${location}.tables`, 'must have at least one table')
  return tables.flatMap((one, index): TableSettings[] => {
    const own = `${location}.tables[${index}]`
    const { table, textColumn, vectorColumn, idColumn, filter } = one
    for (const [name, value] of Object.entries({ table, text_column: textColumn, vector_column: vectorColumn }))
      if (value === undefined && !isGiven(`${own}.${name}`)) refuse(`${own}.${name}`, 'must be given')
    if (table === undefined || textColumn === undefined || vectorColumn === undefined) return []
    const [first = '', second] = table.split('.')
    return [
      {
        schema: second === undefined ? undefined : first,
        name: second ?? first,
        textColumn,
        vectorColumn,
        idColumn,
        filter:
          filter === undefined
            ? undefined
            : typeof filter === 'string'
              ? { kind: 'sql', text: filter }
              : { kind: 'conditions', filter },
      },
    ]
  })
}
