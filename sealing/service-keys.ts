/**
 * The keys and tokens of a service: what the Secret that `spec.services[].secret` names holds, and what the operator mints.
 * The API writes values sealed for their place, users write them plain; both are read here.
 */
import { isSealed, open, seal, secretPlace } from './credentials.ts'

/** The component label of the Secrets that the API writes. A user's own Secret does not have it. */
export const serviceKeysComponent = 'service-keys'

/** The fields of a service as a whole. */
const serviceKeyFields = [
  'embedding_api_key',
  'init_tokens',
  'init_users',
  'jwt_secret',
  'embedding_llm_api_key',
  'completion_llm_api_key',
] as const
type ServiceKeyField = (typeof serviceKeyFields)[number]

/** The models that a rag service, or one of its pipelines, can have a key for. */
export const ragModels = ['embedding_llm', 'completion_llm'] as const
type RagModel = (typeof ragModels)[number]

/** The field with the key of a model: the service's, or a pipeline's own. */
export const modelKeyField = (model: RagModel, pipeline?: string): string =>
  pipeline === undefined ? `${model}_api_key` : `pipelines.${pipeline}.${model}_api_key`

const pipelineField = /^pipelines\.[A-Za-z0-9][A-Za-z0-9_-]{0,62}\.(embedding|completion)_llm_api_key$/

const isServiceKeyField = (field: string): boolean =>
  serviceKeyFields.some(known => known === field) || pipelineField.test(field)

/** What a branch never takes from its source, also where both name one Secret. */
const notOnBranches: readonly string[] = ['init_tokens', 'init_users'] satisfies readonly ServiceKeyField[]

/** Values by field, unsealed. */
export type ServiceKeys = Readonly<Record<string, string>>

export const withoutKeysOfSource = (keys: ServiceKeys): ServiceKeys =>
  Object.fromEntries(Object.entries(keys).filter(([field]) => !notOnBranches.includes(field)))

/** What the operator mints for a service, in the Secret `childNames.serviceSecret`: `token` for mcp and rag, `password` for rest. */
const mintedFields = ['token', 'password'] as const
export type MintedField = (typeof mintedFields)[number]

type StoredSecret = {
  metadata: { namespace?: string | undefined; name: string }
  data?: Readonly<Record<string, string>> | undefined
}

function storedValue(key: Uint8Array, { metadata, data }: StoredSecret, field: string): string | undefined {
  const stored = data?.[field]
  if (stored === undefined) return undefined
  const text = Buffer.from(stored, 'base64').toString('utf8')
  return isSealed(text) ? open(key, secretPlace(metadata.namespace ?? '', metadata.name, field), text) : text
}

/** Reads the keys of a Secret, sealed or plain. Fields that are no keys of services are not read. @throws SealError */
export const openServiceKeys = (key: Uint8Array, secret: StoredSecret): ServiceKeys =>
  Object.fromEntries(
    Object.keys(secret.data ?? {})
      .filter(isServiceKeyField)
      .toSorted()
      .flatMap(field => {
        const value = storedValue(key, secret, field)
        return value === undefined ? [] : [[field, value]]
      }),
  )

/** Reads one value that the operator minted. It is never plain. @throws SealError */
export function openMinted(key: Uint8Array, { metadata, data }: StoredSecret, field: MintedField): string | undefined {
  const stored = data?.[field]
  if (stored === undefined) return undefined
  const place = secretPlace(metadata.namespace ?? '', metadata.name, field)
  return open(key, place, Buffer.from(stored, 'base64').toString('utf8'))
}

/** The `data` of a Secret of this name that holds the values, sealed. */
export const sealedData = (
  key: Uint8Array,
  { namespace, name }: { namespace: string; name: string },
  values: Readonly<Record<string, string>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values).map(([field, value]) => [
      field,
      Buffer.from(seal(key, secretPlace(namespace, name, field), value)).toString('base64'),
    ]),
  )
