/**
 * The keys and tokens of a service: from the Secret that `spec.services[].secret` names, and those that the operator
 * generates. The API writes encrypted values, users write plain text; this module reads both.
 */
import { isSealed, open, seal, secretLocation } from './credentials.ts'

/** The component label of the Secrets that the API writes. A Secret that a user wrote does not have it. */
export const serviceKeysComponent = 'service-keys'

/** The service-wide fields. */
const serviceKeyFields = [
  'embedding_api_key',
  'init_tokens',
  'init_users',
  'jwt_secret',
  'embedding_llm_api_key',
  'completion_llm_api_key',
] as const
type ServiceKeyField = (typeof serviceKeyFields)[number]

/** The models of a rag service, or of a pipeline, that can have a key. */
export const ragModels = ['embedding_llm', 'completion_llm'] as const
type RagModel = (typeof ragModels)[number]

/** The field with the key of a model: the key of the service, or of one pipeline. */
export const modelKeyField = (model: RagModel, pipeline?: string): string =>
  pipeline === undefined ? `${model}_api_key` : `pipelines.${pipeline}.${model}_api_key`

const pipelineField = /^pipelines\.[A-Za-z0-9][A-Za-z0-9_-]{0,62}\.(embedding|completion)_llm_api_key$/

const isServiceKeyField = (field: string): boolean =>
  serviceKeyFields.some(known => known === field) || pipelineField.test(field)

/** Fields that a branch never inherits, even if both the branch and its source name the same Secret. */
const notOnBranches: readonly string[] = ['init_tokens', 'init_users'] satisfies readonly ServiceKeyField[]

/** Values by field, decrypted. */
export type ServiceKeys = Readonly<Record<string, string>>

export const withoutKeysOfSource = (keys: ServiceKeys): ServiceKeys =>
  Object.fromEntries(Object.entries(keys).filter(([field]) => !notOnBranches.includes(field)))

/**
 * Values that the operator generates for a service, in the Secret `childNames.serviceSecret`: `token` for mcp and rag,
 * `password` for rest.
 */
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
  return isSealed(text) ? open(key, secretLocation(metadata.namespace ?? '', metadata.name, field), text) : text
}

/**
 * Reads the keys of a Secret, encrypted or plain. Fields that are not keys of services are ignored. @throws SealError
 */
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

/** Reads one value that the operator generated. It is never plain text. @throws SealError */
export function openMinted(key: Uint8Array, { metadata, data }: StoredSecret, field: MintedField): string | undefined {
  const stored = data?.[field]
  if (stored === undefined) return undefined
  const location = secretLocation(metadata.namespace ?? '', metadata.name, field)
  return open(key, location, Buffer.from(stored, 'base64').toString('utf8'))
}

/** The `data` of a Secret with this name that contains the values, encrypted. */
export const sealedData = (
  key: Uint8Array,
  { namespace, name }: { namespace: string; name: string },
  values: Readonly<Record<string, string>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values).map(([field, value]) => [
      field,
      Buffer.from(seal(key, secretLocation(namespace, name, field), value)).toString('base64'),
    ]),
  )
