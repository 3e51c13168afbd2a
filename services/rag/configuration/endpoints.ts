/** The models of a pipeline: what the pipeline says of them, completed from the defaults. */
import type { Settings } from '../../configuration/declaration.ts'
import type { Checks } from '../../configuration/loader.ts'
import { type ApiKeys, apiKeyRule, isApiKey, isKeyed } from './api-keys.ts'
import type { keys, pipeline } from './keys.ts'
import type { CompletionSettings, EmbeddingSettings, PipelineSettings, RerankSettings } from './types.ts'

type Headers = Readonly<Record<string, string>>
type Given = Settings<typeof pipeline>
type Defaults = Settings<typeof keys>['defaults']

/** What one pipeline may use. */
export type Surroundings = {
  readonly defaults: Defaults
  /** Of every request to a provider. */
  readonly headers: Headers
  readonly apiKeys: ApiKeys
  readonly checks: Checks
}

type GivenEndpoint<Provider> = {
  readonly provider: Provider | undefined
  readonly model: string | undefined
  readonly apiKey: string | undefined
  readonly baseUrl: string | undefined
  readonly headers: Headers | undefined
  readonly requestTimeout: number | undefined
  readonly perAttemptTimeout: number | undefined
}

/** Names of headers do not depend on their case: the later of two counts. */
export function joined(...all: readonly (Headers | undefined)[]): Headers {
  const entries = all
    .flatMap(headers => Object.entries(headers ?? {}))
    .map(([name, value]) => [name.toLowerCase(), value])
  return Object.fromEntries(entries)
}

/** Model, key, address and headers belong to a provider: another provider inherits none of them. */
function inherit<Provider>(own: GivenEndpoint<Provider>, base: GivenEndpoint<Provider>): GivenEndpoint<Provider> {
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

/** `place`: where the file has it; `where`: what a missing value is missing for. */
function complete<Provider extends string>(
  given: GivenEndpoint<Provider>,
  places: readonly string[],
  { headers: common, apiKeys, checks }: Surroundings,
) {
  const { provider, model, baseUrl, headers } = given
  const [place = ''] = places
  const isGiven = (name: string) => places.some(one => checks.isGiven(`${one}.${name}`))
  if (provider === undefined && !isGiven('provider')) checks.refuse(`${place}.provider`, whereMissing(places))
  if (model === undefined && !isGiven('model')) checks.refuse(`${place}.model`, whereMissing(places))
  const own = given.apiKey?.trim()
  if (own !== undefined && !isApiKey(own)) checks.refuse(`${place}.api_key`, apiKeyRule)
  const apiKey = own ?? (provider !== undefined && isKeyed(provider) ? apiKeys[provider] : undefined)
  if (provider !== undefined && isKeyed(provider) && apiKey === undefined && baseUrl === undefined)
    checks.refuse(`${place}.api_key`, missingKey(provider))
  if (provider === undefined || model === undefined) return undefined
  return {
    provider,
    model,
    apiKey,
    baseUrl,
    headers: joined(common, headers),
    timeoutMs: given.requestTimeout ?? 0,
    attemptTimeoutMs: given.perAttemptTimeout ?? 0,
  }
}

const whereMissing = ([, other]: readonly string[]): string =>
  other === undefined ? 'must be given' : `must be given here or in ${other}`

const missingKey = (provider: string): string =>
  `must be given where there is no base_url: here, by api_keys.${provider}, by ${provider.toUpperCase()}_API_KEY or by ~/.${provider}-api-key`

export const embeddingOf = (given: Given, place: string, around: Surroundings): EmbeddingSettings | undefined =>
  complete(
    inherit(given.embeddingLlm, around.defaults.embeddingLlm),
    [`${place}.embedding_llm`, 'defaults.embedding_llm'],
    around,
  )

export const completionOf = (given: Given, place: string, around: Surroundings): CompletionSettings | undefined =>
  complete(inherit(given.ragLlm, around.defaults.ragLlm), [`${place}.rag_llm`, 'defaults.rag_llm'], around)

/** Off where nothing is said of it. */
export function rerankOf({ rerank }: Given, place: string, around: Surroundings): PipelineSettings['rerank'] {
  if (!around.checks.isGiven(`${place}.rerank`)) return undefined
  const settings = complete({ ...rerank, provider: rerank.provider ?? 'voyage' }, [`${place}.rerank`], around)
  return settings && ({ ...settings, depth: rerank.candidates } satisfies RerankSettings)
}
