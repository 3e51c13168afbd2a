/** The models of a pipeline: the pipeline's own settings, completed from the defaults. */
import type { Settings } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import { type ApiKeys, apiKeyRule, isApiKey, isKeyed } from './api-keys.ts'
import type { keys, pipeline } from './keys.ts'
import type { CompletionSettings, EmbeddingSettings, PipelineSettings, RerankSettings } from './types.ts'

type Headers = Readonly<Record<string, string>>
type ReadPipeline = Settings<typeof pipeline>
type Defaults = Settings<typeof keys>['defaults']

/** The endpoints of one pipeline. */
export type EndpointContext = {
  readonly defaults: Defaults
  /** Headers of every request to a provider. */
  readonly headers: Headers
  readonly apiKeys: ApiKeys
  readonly checks: Checks
}

type ReadEndpoint<Provider> = {
  readonly provider: Provider | undefined
  readonly model: string | undefined
  readonly apiKey: string | undefined
  readonly baseUrl: string | undefined
  readonly headers: Headers | undefined
  readonly requestTimeout: number | undefined
  readonly perAttemptTimeout: number | undefined
}

/** Header names are case-insensitive, so the later of two equal names is used. */
export function joined(...all: readonly (Headers | undefined)[]): Headers {
  const entries = all
    .flatMap(headers => Object.entries(headers ?? {}))
    .map(([name, value]) => [name.toLowerCase(), value])
  return Object.fromEntries(entries)
}

/** Model, key, address and headers belong to a provider, so another provider does not inherit them. */
function inherit<Provider>(own: ReadEndpoint<Provider>, base: ReadEndpoint<Provider>): ReadEndpoint<Provider> {
  const isSame = own.provider === undefined || own.provider === base.provider
  const from = isSame ? base : undefined
  return {
    provider: own.provider ?? base.provider,
    model: own.model ?? from?.model,
    apiKey: own.apiKey ?? from?.apiKey,
    baseUrl: own.baseUrl ?? from?.baseUrl,
    headers: joined(from?.headers, own.headers),
    requestTimeout: own.requestTimeout ?? base.requestTimeout,
    perAttemptTimeout: own.perAttemptTimeout ?? base.perAttemptTimeout,
  }
}

/** `paths`: the endpoint's locations in the file. */
function complete<Provider extends string>(
  read: ReadEndpoint<Provider>,
  paths: readonly string[],
  { headers: common, apiKeys, checks }: EndpointContext,
) {
  const { provider, model, baseUrl, headers } = read
  const [path = ''] = paths
  const isSet = (name: string) => paths.some(one => checks.isSet(`${one}.${name}`))
  if (provider === undefined && !isSet('provider')) checks.refuse(`${path}.provider`, whereMissing(paths))
  if (model === undefined && !isSet('model')) checks.refuse(`${path}.model`, whereMissing(paths))
  const own = read.apiKey?.trim()
  if (own !== undefined && !isApiKey(own)) checks.refuse(`${path}.api_key`, apiKeyRule)
  const apiKey = own ?? (provider !== undefined && isKeyed(provider) ? apiKeys[provider] : undefined)
  if (provider !== undefined && isKeyed(provider) && apiKey === undefined && baseUrl === undefined)
    checks.refuse(`${path}.api_key`, missingKey(provider))
  if (provider === undefined || model === undefined) return undefined
  return {
    provider,
    model,
    apiKey,
    baseUrl,
    headers: joined(common, headers),
    timeoutMs: read.requestTimeout ?? 0,
    attemptTimeoutMs: read.perAttemptTimeout ?? 0,
  }
}

const whereMissing = ([, other]: readonly string[]): string =>
  other === undefined ? 'must be given' : `must be given here or in ${other}`

const missingKey = (provider: string): string =>
  `must be given without base_url: here, by api_keys.${provider}, by ${provider.toUpperCase()}_API_KEY or by ~/.${provider}-api-key`

export const embeddingOf = (
  read: ReadPipeline,
  path: string,
  context: EndpointContext,
): EmbeddingSettings | undefined =>
  complete(
    inherit(read.embeddingLlm, context.defaults.embeddingLlm),
    [`${path}.embedding_llm`, 'defaults.embedding_llm'],
    context,
  )

export const completionOf = (
  read: ReadPipeline,
  path: string,
  context: EndpointContext,
): CompletionSettings | undefined =>
  complete(inherit(read.ragLlm, context.defaults.ragLlm), [`${path}.rag_llm`, 'defaults.rag_llm'], context)

/** Reranking is off by default. */
export function rerankOf({ rerank }: ReadPipeline, path: string, context: EndpointContext): PipelineSettings['rerank'] {
  if (!context.checks.isSet(`${path}.rerank`)) return undefined
  const settings = complete({ ...rerank, provider: rerank.provider ?? 'voyage' }, [`${path}.rerank`], context)
  return settings && ({ ...settings, depth: rerank.candidates } satisfies RerankSettings)
}
