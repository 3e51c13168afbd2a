/** Applies a request's list of services to the existing services. Pure; refuses by throwing ApiError. */
import {
  canonicalJson,
  mcpServiceConfig,
  missingPgvector,
  type PgVersion,
  type ServiceConfig,
} from '../../crds/index.ts'
import { type ServiceKeys, withoutKeysOfSource } from '../../sealing/service-keys.ts'
import { storedAllowlist } from '../databases/allowlist.ts'
import { badRequest } from '../errors.ts'
import { type Configuration, requestedKeys, requiredKeys, storedConfiguration, usableKeys } from './configured.ts'
import type { ServiceInput } from './schema.ts'

/** A service as it is stored. */
export type KnownService = {
  config: ServiceConfig
  /** The decrypted content of its Secret. */
  keys: ServiceKeys
  /** The token that the operator generated for it. */
  token: string | undefined
}

/** A Secret that must be written before the resource that names it. */
export type KeysSecret = { name: string; keys: ServiceKeys }

export type ServiceContext = {
  /** Whether the installation runs services. */
  isOffered: boolean
  pgVersion: PgVersion
  /** The available majors with pgvector, newest first. */
  pgvectorVersions: readonly PgVersion[]
  /** The names of the database's members and hosts. */
  members: readonly string[]
  newServiceId: () => string
  newSecretName: () => string
}

export type DecidedServices = { services: ServiceConfig[]; secrets: KeysSecret[] }

/**
 * An existing service is matched by its type, and keeps omitted fields. Retained services keep their order, so that
 * another order of the same services changes nothing.
 * @throws ApiError 400
 */
export function decideServices(
  inputs: readonly ServiceInput[],
  known: readonly KnownService[],
  context: ServiceContext,
): DecidedServices {
  const decided = inputs.map((input, index) => {
    const existing = known.find(({ config }) => config.serviceType === input.service_type)
    return decideService(input, existing, { ...context, path: `services[${index}]` })
  })
  const position = ({ config }: { config: ServiceConfig }): number => {
    const at = known.findIndex(({ config: { serviceType } }) => serviceType === config.serviceType)
    return at === -1 ? known.length : at
  }
  return {
    services: decided.toSorted((left, right) => position(left) - position(right)).map(({ config }) => config),
    secrets: decided.flatMap(({ secret }) => (secret === undefined ? [] : [secret])),
  }
}

type Placed = ServiceContext & { path: string }

function decideService(input: ServiceInput, existing: KnownService | undefined, around: Placed) {
  const { path } = around
  const { service_type: serviceType } = input
  requireItself(input, existing, path)
  if (existing === undefined) requireOffer(serviceType, around)
  const configuration = configurationAfter(input, existing)
  requireEmbeddings(configuration, path)
  const keys = mergedKeys(input, existing, configuration)
  const missing = requiredKeys(configuration).find(({ field }) => keys[field] === undefined)
  if (missing !== undefined)
    throw badRequest(
      `${path}.${missing.path}: is required ${missing.why}${existing === undefined ? ' on a new service' : '; no key is stored'}`,
    )
  const { secretName, secret } = placed(keys, existing, around)
  const hosts = {
    ...listOf('hostIds', `${path}.host_ids`, input.host_ids, existing, around),
    ...listOf('targetNodes', `${path}.target_nodes`, input.target_nodes, existing, around),
  }
  const config: ServiceConfig = {
    serviceType,
    serviceId: existing?.config.serviceId ?? around.newServiceId(),
    ...hosts,
    ipAllowlist:
      input.ip_allowlist === undefined
        ? (existing?.config.ipAllowlist ?? { rules: [] })
        : storedAllowlist(input.ip_allowlist),
    ...configuration,
    ...(secretName === undefined ? {} : { secret: { name: secretName } }),
  }
  return { config, secret }
}

function requireItself(
  { service_id: id, service_type: type }: ServiceInput,
  existing: KnownService | undefined,
  path: string,
) {
  if (id === undefined || id === existing?.config.serviceId) return
  throw badRequest(
    existing === undefined
      ? `${path}.service_id: the database has no ${type} service, and the server assigns the id of a new one: omit it`
      : `${path}.service_id: the ${type} service has the id ${existing.config.serviceId}`,
  )
}

function requireOffer(
  type: ServiceConfig['serviceType'],
  { isOffered, pgVersion, pgvectorVersions, path }: Placed,
): void {
  if (!isOffered)
    throw badRequest(
      `${path}: this installation does not run services: an administrator must configure their image (chart value services.image)`,
    )
  if (type === 'rag' && !pgvectorVersions.includes(pgVersion))
    throw badRequest(`${path}.service_type: ${missingPgvector(pgVersion, pgvectorVersions)}`)
}

const configurationOf = ({ config: { mcp, rest, rag } }: KnownService): Configuration => {
  return {
    ...(mcp === undefined ? {} : { mcp }),
    ...(rest === undefined ? {} : { rest }),
    ...(rag === undefined ? {} : { rag }),
  }
}

/** @throws ApiError 400 */
function requireEmbeddings({ rag }: Configuration, path: string): void {
  const refuse = (place: string) =>
    badRequest(`${path}.rag_config.${place}.provider: anthropic has no embeddings; must be openai`)
  if (rag?.embeddingLlm.provider === 'anthropic') throw refuse('embedding_llm')
  const index = rag?.pipelines.findIndex(({ embeddingLlm }) => embeddingLlm?.provider === 'anthropic') ?? -1
  if (index >= 0) throw refuse(`pipelines[${index}].embedding_llm`)
}

const defaultMcp = mcpServiceConfig.parse({})

/** An mcp service without a configuration has the default one: setting that changes nothing. */
function configurationAfter(input: ServiceInput, existing: KnownService | undefined): Configuration {
  const configuration = storedConfiguration(input)
  if (existing === undefined) return configuration ?? { mcp: defaultMcp }
  const stored = configurationOf(existing)
  const isDefault = configuration?.mcp !== undefined && canonicalJson(configuration.mcp) === canonicalJson(defaultMcp)
  return configuration === undefined || (isDefault && stored.mcp === undefined) ? stored : configuration
}

/** The keys after the request. A returned token that a client sends back is not treated as the client's own. */
function mergedKeys(
  input: ServiceInput,
  existing: KnownService | undefined,
  configuration: Configuration,
): ServiceKeys {
  const stored = existing?.keys ?? {}
  const merged = Object.entries({ ...stored, ...requestedKeys(input) }).filter((entry): entry is [string, string] => {
    const [field, key] = entry
    if (field === 'init_tokens' && stored[field] === undefined && key === existing?.token) return false
    return key !== null
  })
  const isUsable = usableKeys(configuration, input.service_type)
  return Object.fromEntries(merged.filter(([field]) => isUsable(field)))
}

const isSame = (left: ServiceKeys, right: ServiceKeys): boolean =>
  Object.keys(left).length === Object.keys(right).length &&
  Object.entries(left).every(([field, key]) => right[field] === key)

/** The Secret for the keys: the existing one, none without keys, else a new one. */
function placed(keys: ServiceKeys, existing: KnownService | undefined, { newSecretName }: Placed) {
  if (existing !== undefined && isSame(keys, existing.keys))
    return { secretName: existing.config.secret?.name, secret: undefined }
  if (Object.keys(keys).length === 0) return { secretName: undefined, secret: undefined }
  const name = newSecretName()
  return { secretName: name, secret: { name, keys } }
}

function listOf(
  field: 'hostIds' | 'targetNodes',
  path: string,
  given: readonly string[] | null | undefined,
  existing: KnownService | undefined,
  { members }: Placed,
) {
  const stored = existing?.config[field]
  if (given === undefined) return stored === undefined ? {} : { [field]: stored }
  if (given === null || given.length === 0) return {}
  // Stored members stay valid, even if a member has been replaced since.
  const unknown = given.filter(name => !members.includes(name) && stored?.includes(name) !== true)
  if (unknown.length > 0)
    throw badRequest(
      `${path}: unknown ${unknown.join(', ')}; ${members.length === 0 ? 'a new database has no members yet: omit it' : `the database has ${members.join(', ')}`}`,
    )
  return { [field]: [...given] }
}

/** The services of a branch: own ids, the keys that a branch inherits, and no members of the source. */
export function servicesOfBranch(
  known: readonly KnownService[],
  { newServiceId, newSecretName }: Pick<ServiceContext, 'newServiceId' | 'newSecretName'>,
): DecidedServices {
  const secrets: KeysSecret[] = []
  const services = known.map(({ config, keys: ofSource }): ServiceConfig => {
    const keys = withoutKeysOfSource(ofSource)
    const { hostIds: _hosts, targetNodes: _nodes, secret: _secret, ...rest } = config
    const copy = { ...rest, serviceId: newServiceId() }
    if (Object.keys(keys).length === 0) return copy
    const name = newSecretName()
    secrets.push({ name, keys })
    return { ...copy, secret: { name } }
  })
  return { services, secrets }
}
