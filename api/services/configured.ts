/** One service of a request, split into the resource's part and the keys for its Secret. Pure. */
import { mcpServiceConfig, ragServiceConfig, restServiceConfig, type ServiceConfig } from '../../crds/index.ts'
import { modelKeyField, ragModels } from '../../sealing/service-keys.ts'
import { isRecord } from '../../values/record.ts'
import type { ServiceInput } from './schema.ts'

/** Keys by field. Null removes a key; an absent one is unchanged. */
type RequestedKeys = Readonly<Record<string, string | null>>
export type Configuration = Pick<ServiceConfig, 'mcp' | 'rest' | 'rag'>

/** Never part of a resource. */
const secretMembers: readonly string[] = ['embedding_api_key', 'init_tokens', 'init_users', 'jwt_secret', 'api_key']

const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** The value with every object key in camel case, without secrets and without nulls. */
function stored(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(stored)
  if (!isRecord(value)) return value
  const members = Object.entries(value).filter(([name, inner]) => inner !== null && !secretMembers.includes(name))
  return Object.fromEntries(members.map(([name, inner]) => [camel(name), stored(inner)]))
}

/** The configuration of a service for its resource; undefined if the request has none. */
export function storedConfiguration(input: ServiceInput): Configuration | undefined {
  const { mcp_config: mcp, rest_config: rest, rag_config: rag } = input
  if (mcp !== undefined) return { mcp: mcpServiceConfig.parse(stored(mcp)) }
  if (rest !== undefined) return { rest: restServiceConfig.parse(stored(rest)) }
  if (rag !== undefined) return { rag: ragServiceConfig.parse(stored(rag)) }
  return undefined
}

type Model = { api_key?: string | null | undefined } | undefined
type Models = { embedding_llm?: Model; completion_llm?: Model }

const keysOfModels = (holder: Models, pipeline?: string): (readonly [string, string | null | undefined])[] =>
  ragModels.map(model => [modelKeyField(model, pipeline), holder[model]?.api_key])

/** The keys that a request sets or removes. */
export function requestedKeys({ mcp_config: mcp, rest_config: rest, rag_config: rag }: ServiceInput): RequestedKeys {
  const all: (readonly [string, string | null | undefined])[] = [
    ['embedding_api_key', mcp?.embedding_api_key],
    ['init_tokens', mcp?.init_tokens],
    ['init_users', mcp?.init_users],
    ['jwt_secret', rest?.jwt_secret],
    ...(rag === undefined ? [] : keysOfModels(rag)),
    ...(rag?.pipelines ?? []).flatMap(pipeline => keysOfModels(pipeline, pipeline.name)),
  ]
  return Object.fromEntries(
    all.flatMap(([field, key]): [string, string | null][] => (key === undefined ? [] : [[field, key]])),
  )
}

/** A required key of a configuration. `path`: its field in a request. */
type RequiredKey = { field: string; path: string; why: string }

/** The fields of a Secret that a configuration uses. Others belong to deleted pipelines or models. */
export function usableKeys({ rag }: Configuration, type: ServiceConfig['serviceType']): (field: string) => boolean {
  if (type === 'mcp') return field => ['embedding_api_key', 'init_tokens', 'init_users'].includes(field)
  if (type === 'rest') return field => field === 'jwt_secret'
  const own = ragModels.map(model => modelKeyField(model))
  const ofPipelines = (rag?.pipelines ?? []).flatMap(pipeline =>
    ragModels.filter(model => modelOf(pipeline, model) !== undefined).map(model => modelKeyField(model, pipeline.name)),
  )
  return field => own.includes(field) || ofPipelines.includes(field)
}

type RagModel = (typeof ragModels)[number]
const modelOf = <M>(holder: { embeddingLlm?: M; completionLlm?: M }, model: RagModel): M | undefined =>
  model === 'embedding_llm' ? holder.embeddingLlm : holder.completionLlm

/** A pipeline's model of the service's provider uses the service's key. */
export function requiredKeys({ mcp, rag }: Configuration): RequiredKey[] {
  if (mcp?.embeddingProvider !== undefined)
    return [{ field: 'embedding_api_key', path: 'mcp_config.embedding_api_key', why: 'if embedding_provider is set' }]
  if (rag === undefined) return []
  const ofService = ragModels.map(model => ({
    field: modelKeyField(model),
    path: `rag_config.${model}.api_key`,
    why: 'for a model provider',
  }))
  const ofPipelines = rag.pipelines.flatMap((pipeline, index) =>
    ragModels
      .filter(model => {
        const own = modelOf(pipeline, model)
        return own !== undefined && own.provider !== modelOf(rag, model)?.provider
      })
      .map(model => ({
        field: modelKeyField(model, pipeline.name),
        path: `rag_config.pipelines[${index}].${model}.api_key`,
        why: "if the provider is not the service's",
      })),
  )
  return [...ofService, ...ofPipelines]
}
