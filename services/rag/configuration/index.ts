/**
 * The configuration of the retrieval server: one YAML file, with `${VARIABLE}` from the environment. It returns settings that can be used, or reports all that is wrong at once,
 * each problem with its key and its rule, and never with a value, which may be a secret.
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
import { completionOf, embeddingOf, joined, rerankOf, type Surroundings } from './endpoints.ts'
import { keys, type pipeline } from './keys.ts'
import type { PipelineSettings, RagSettings, ServerSettings, TableSettings } from './types.ts'

type Given = Settings<typeof keys>
type GivenPipeline = Settings<typeof pipeline>
type InFolder = (path: string) => string

/** Where files are that the configuration names. */
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

/** `onFile` is called with the path of each file that is read or looked for: what the settings depend on. */
type Reading = { readonly environment: Environment; readonly onFile?: (path: string) => void }

/** @throws Error if the file cannot be read; ConfigurationError with all that is wrong */
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
  const { settings: given } = checks
  const server = serverOf(given, files.inFolder, checks)
  const readKeys = (table: GivenPipeline['apiKeys'], place: string) =>
    keysOfFiles(table, place, files.read, checks.refuse)
  const keysOfServer: ApiKeys = {
    ...surroundingKeys(environment, files.read),
    ...readKeys(given.apiKeys, 'api_keys'),
    ...readKeys(given.defaults.apiKeys, 'defaults.api_keys'),
  }
  const pipelines = given.pipelines.flatMap((one, index): PipelineSettings[] => {
    const place = `pipelines[${index}]`
    const apiKeys = { ...keysOfServer, ...readKeys(one.apiKeys, `${place}.api_keys`) }
    const headers = joined(given.defaults.llmHeaders, one.llmHeaders)
    const settings = pipelineOf(one, place, { defaults: given.defaults, headers, apiKeys, checks }, files.inFolder)
    return settings === undefined ? [] : [settings]
  })
  checkNames(given, checks)
  checks.check()
  return { server, pipelines, logLevel: given.logLevel }
}

function checkNames({ pipelines }: Given, { refuse, isGiven, problems }: Checks): void {
  const isRefused = problems.some(({ key }) => key === 'pipelines')
  if (pipelines.length === 0 && !isRefused) refuse('pipelines', 'must have at least one pipeline')
  for (const [index, { name }] of pipelines.entries()) {
    const place = `pipelines[${index}].name`
    if (name === undefined && !isGiven(place)) refuse(place, 'must be given')
    const first = pipelines.findIndex(other => other.name === name)
    if (name !== undefined && first !== index) refuse(place, `must be another name than that of pipelines[${first}]`)
  }
}

function serverOf({ server }: Given, inFolder: InFolder, { isGiven, refuse }: Checks): ServerSettings {
  const { tls, cors, requestTimeout, streamTimeout } = server
  const { enabled = isGiven('server.tls'), certFile, keyFile } = tls
  for (const [name, file] of [
    ['cert_file', certFile],
    ['key_file', keyFile],
  ] as const)
    if (enabled && file === undefined && !isGiven(`server.tls.${name}`))
      refuse(`server.tls.${name}`, 'must be given where TLS is on')
  const { allowedOrigins } = cors
  if (cors.enabled && allowedOrigins.length === 0)
    refuse('server.cors.allowed_origins', 'must have an origin, or * for any, where CORS is on')
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

/** undefined: something is wrong with it. */
function pipelineOf(
  given: GivenPipeline,
  place: string,
  around: Surroundings,
  inFolder: InFolder,
): PipelineSettings | undefined {
  const { checks, defaults } = around
  const address = addressOf(given.database, `${place}.database`, inFolder, checks)
  const tables = tablesOf(given, place, checks)
  const embedding = embeddingOf(given, place, around)
  const completion = completionOf(given, place, around)
  const rerank = rerankOf(given, place, around)
  const { name, search } = given
  if (name === undefined || address === undefined || embedding === undefined || completion === undefined)
    return undefined
  return {
    name,
    description: given.description,
    address,
    poolSize: given.database.poolMaxConns,
    tables,
    embedding,
    completion,
    rerank,
    tokenBudget: given.tokenBudget ?? defaults.tokenBudget,
    contextTokens: given.contextTokens ?? defaults.contextTokens,
    topN: (rerank && given.rerank.topK) ?? given.topN ?? defaults.topN,
    systemPrompt: given.systemPrompt,
    hybridEnabled: search.hybridEnabled,
    vectorWeight: search.vectorWeight,
    minSimilarity: search.minSimilarity,
    exactTimeoutMs: search.exactTimeout,
    allowSources: given.allowIncludeSources,
    maximumConcurrentRequests: given.maxConcurrentRequests,
  }
}

function tablesOf({ tables }: GivenPipeline, place: string, { isGiven, refuse, problems }: Checks): TableSettings[] {
  if (tables.length === 0 && !problems.some(({ key }) => key === `${place}.tables`))
    refuse(`${place}.tables`, 'must have at least one table')
  return tables.flatMap((one, index): TableSettings[] => {
    const own = `${place}.tables[${index}]`
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
