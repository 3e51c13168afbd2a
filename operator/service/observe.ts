/** Observes an owner's services, and reads the content of their Secrets, which no plan reads. */
import type { Cluster, Pod, Secret } from '../../cluster/index.ts'
import {
  childNames,
  labels,
  type PgVersion,
  pgVersions,
  type Region,
  type ServiceConfig,
  systemNamespace,
} from '../../crds/index.ts'
import { acknowledged, gatewayComponent, hostOfRoute, readAnyRoute } from '../../routes/route.ts'
import { applicationDatabase, type DatabaseRole, type Passwords, SealError } from '../../sealing/credentials.ts'
import {
  openMinted,
  openServiceKeys,
  type ServiceKeys,
  serviceKeysComponent,
  withoutKeysOfSource,
} from '../../sealing/service-keys.ts'
import type { Caches } from '../caches.ts'
import type { OwnedObjects } from '../children/owned.ts'
import type { ClockGuard } from '../clock/guard.ts'
import { openPrevious } from '../endpoint/credentials.ts'
import { externalAddressOf } from '../endpoint/external-address.ts'
import type { InstallationKeys } from '../keys.ts'
import { serviceHost } from '../member/pod/addresses.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { Instance } from '../objects/instance.ts'
import type { Owner } from '../objects/ownership.ts'
import { digestOf } from '../objects/up-to-date.ts'
import type { DesiredAuthenticator, DesiredMcpState } from '../postgres/administrator.ts'
import { postgresPort } from '../postgres/configuration.ts'
import { type Rendering, renderService, type ServiceInput, type ServiceType } from './configuration/index.ts'
import { tokenDigest } from './configuration/token-digest.ts'
import { faultsOf } from './faults.ts'
import { loginOf } from './login.ts'
import { desiredMcpState, mcpStateOf, stateSecretOf } from './mcp-state.ts'
import { parseWorkloadName, serviceComponent, typeOfAddress } from './names.ts'
import {
  type HttpRouteFacts,
  type McpState,
  type MintedSecret,
  noServices,
  type ObservedServices,
  type RenderingState,
  type RequestedService,
  type SeenMcpState,
  type ServiceAddress,
  type ServiceLogin,
  type ServiceObjects,
  type ServicePod,
} from './observed.ts'
import { problemOf } from './pod-problem.ts'
import { referencesOf } from './references.ts'
import type { HasPgvector, ServiceInstallation, ServiceOptions } from './settings.ts'
import { imageOf, readyPods, selectedBy } from './workloads.ts'

/** The content of each service's immutable Secret, by type. Each function renders the content when it is called. */
export type ServiceFiles = Readonly<Partial<Record<ServiceType, () => Promise<Readonly<Record<string, string>>>>>>

export type ServicesObserver = {
  caches: Caches
  cluster: Cluster
  now: () => number
  services: ServiceOptions
  hasPgvector: HasPgvector
  clock: Pick<ClockGuard, 'distrust'>
}

type ServicesRequest = {
  instance: Instance
  owner: Owner | undefined
  isAtRest: boolean
  region: Region | undefined
  configs: readonly ServiceConfig[]
  /** Whether a Secret with keys contains the source's tokens and users. */
  isCopy: boolean
  owned: OwnedObjects
  credentials: Secret | undefined
  passwords: Passwords | undefined
  keys: InstallationKeys
  /** The storage of `mcp`, according to Postgres's last answer. */
  seenMcpState: SeenMcpState | undefined
}

type Observation = {
  services: ObservedServices
  files: ServiceFiles
  login: DesiredAuthenticator | undefined
  /** Undefined until the owner has its final id. */
  mcpState: DesiredMcpState | undefined
}

export async function observeServices(observer: ServicesObserver, request: ServicesRequest): Promise<Observation> {
  const { owner, configs, owned } = request
  const installation = await installationOf(observer.services, configs)
  const none = noServices(installation)
  if (owner === undefined) return { services: none, files: {}, login: undefined, mcpState: undefined }
  const objects = objectsOf(owner, owned)
  const pods = podsOf(observer.caches, owner)
  const isClockTrusted = observer.clock.distrust() === undefined
  const mcpState = mcpStateOf(owner, configs, objects, request.seenMcpState)
  const unrendered = { files: {}, login: undefined, mcpState: desiredMcpState(owner, mcpState, undefined) }
  if (configs.length === 0) return { services: { ...none, objects, pods, isClockTrusted }, ...unrendered }
  const { image } = observer.services
  if (image === undefined)
    return { services: withoutImage({ ...none, objects, pods, isClockTrusted, mcpState }, configs), ...unrendered }
  const address = addressOf(owner, request.region)
  const login = loginOf(owner, configs, objects)
  const references = referencesOf(configs)
  const rendered = await Promise.all(
    configs.map(config => observeService(observer, request, { config, owner, objects, address, mcpState })),
  )
  return {
    services: {
      ...{ installation, objects, pods, address },
      ...{ isClockTrusted, login, mcpState },
      requested: rendered.map(({ service }) => service),
      references,
      faults: await faultsOf(configs),
      pgvectorVersions: references?.needsVector ? await withPgvector(observer.hasPgvector) : [],
      route: await routeOf(observer, request, objects),
      upgradeWaitsUntil: upgradeWaitOf(observer.services, owner, image, {
        configs,
        objects,
        isAtRest: request.isAtRest,
      }),
      readsKeys: rendered.some(({ isLive }) => isLive),
    },
    files: Object.fromEntries(
      rendered.flatMap(({ service, files }) => (files === undefined ? [] : [[service.config.serviceType, files]])),
    ),
    login: login && authenticatorOf(login, rendered),
    mcpState: desiredMcpState(owner, mcpState, rendered.find(({ statePassword }) => statePassword)?.statePassword),
  }
}

/** Undefined if no upgrade waits. A user's change is applied at once, with the new image. */
function upgradeWaitOf(
  { upgrades }: ServiceOptions,
  { id }: Owner,
  image: string,
  { configs, objects, isAtRest }: { configs: readonly ServiceConfig[]; objects: ServiceObjects; isAtRest: boolean },
): number | undefined {
  const due = configs.filter(({ serviceType }) => isUpgradeDue(objects, serviceType, image))
  const hasBegun = due.some(({ serviceType }) =>
    objects.workloads.some(({ type, deployment }) => type === serviceType && imageOf(deployment) === image),
  )
  if (due.length === 0) upgrades.end(id)
  else if (hasBegun || !isAtRest) upgrades.begun(id)
  else return upgrades.request(id)
  return undefined
}

/** Whether the serving pods run an older image. */
function isUpgradeDue({ workloads, addresses }: ServiceObjects, type: ServiceType, image: string): boolean {
  const selected = selectedBy(addresses[type])
  const serving = workloads.find(found => found.type === type && found.digest === selected)?.deployment
  return serving !== undefined && readyPods(serving) > 0 && imageOf(serving) !== image
}

async function withPgvector(hasPgvector: HasPgvector): Promise<PgVersion[]> {
  const found = await Promise.all(pgVersions.map(async version => ((await hasPgvector(version)) ? [version] : [])))
  return found.flat()
}

/** Counts nodes only if a requested service's number of pods depends on them. */
async function installationOf(
  { nodes, upgrades: _, ...installation }: ServiceOptions,
  configs: readonly ServiceConfig[],
): Promise<ServiceInstallation> {
  const { image, settings } = installation
  const isCounted = image !== undefined && configs.some(({ serviceType }) => settings.replicas[serviceType] === 'auto')
  return { ...installation, nodes: isCounted ? await nodes() : 'unknown' }
}

/** Creates nothing for requested services, because they cannot run. */
function withoutImage(services: ObservedServices, configs: readonly ServiceConfig[]): ObservedServices {
  const rendering = awaited('an image of services')
  const requested = configs.map(config => ({ config, rendering, unminted: [], tokenDigest: undefined }))
  return { ...services, requested }
}

/** Undefined if the password cannot be unsealed. */
function authenticatorOf(
  { passwordVersion, anonymousRoles }: ServiceLogin,
  rendered: readonly Rendered[],
): DesiredAuthenticator | undefined {
  const password = rendered.find(({ password }) => password !== undefined)?.password
  return password === undefined ? undefined : { password, passwordVersion, anonymousRoles }
}

function objectsOf(owner: Owner, owned: OwnedObjects): ServiceObjects {
  const byType = <T extends { metadata: { name: string } }>(objects: readonly T[]): Partial<Record<ServiceType, T>> =>
    Object.fromEntries(
      objects.flatMap(object => {
        const type = typeOfAddress(owner.id, object.metadata.name)
        return type === undefined ? [] : [[type, object]]
      }),
    )
  const named = <T extends { metadata: { name: string } }, F extends string>(objects: readonly T[], field: F) =>
    objects.flatMap(object => {
      const workload = parseWorkloadName(object.metadata.name)
      return workload === undefined ? [] : [{ ...workload, [field]: object } as typeof workload & Record<F, T>]
    })
  const isMinted = ({ metadata: { name } }: Secret) => name.startsWith(childNames.serviceSecret(owner.id, ''))
  return {
    workloads: named(owned.deployments, 'deployment'),
    configurations: named(owned.secrets, 'secret'),
    addresses: byType(owned.services),
    networkPolicies: byType(owned.networkPolicies),
    disruptionBudgets: byType(owned.disruptionBudgets),
    minted: owned.secrets.filter(isMinted),
    keys: owned.secrets.filter(({ metadata }) => metadata.labels?.[labels.component] === serviceKeysComponent),
    routes: owned.routes.filter(({ metadata }) => hostOfRoute(metadata.name) !== undefined),
  }
}

const podsOf = (caches: Caches, { id, namespace }: Owner): ServicePod[] =>
  caches.pods
    .byIndex('database', id)
    .filter(pod => pod.metadata.namespace === namespace && isOfService(pod))
    .map(pod => ({
      name: pod.metadata.name,
      live: pod.metadata.deletionTimestamp === undefined ? { namespace, uid: pod.metadata.uid ?? '' } : undefined,
      type: pod.metadata.labels?.[labels.service],
      digest: pod.metadata.labels?.[labels.configuration],
      problem: problemOf(pod),
    }))

const isOfService = ({ metadata }: Pod): boolean => metadata.labels?.[labels.component] === serviceComponent

/** If names below the domain do not resolve, the path contains the id instead. */
function addressOf(owner: Owner, region: Region | undefined): ServiceAddress | undefined {
  const https = region?.spec.gateway.https
  if (region === undefined || https === undefined) return undefined
  const { domain, host: gateway } = externalAddressOf(owner, region)
  const port = https.port === 443 ? '' : `:${https.port}`
  const base =
    region.spec.domainResolves === false
      ? `https://${https.host ?? gateway}${port}/${owner.id}`
      : `https://${domain}${port}`
  return { host: domain.toLowerCase(), base }
}

type One = {
  config: ServiceConfig
  owner: Owner
  objects: ServiceObjects
  address: ServiceAddress | undefined
  mcpState: McpState | undefined
}
type Rendered = {
  service: RequestedService
  files?: () => Promise<Readonly<Record<string, string>>>
  /** The login role of `rest`. */
  password?: string | undefined
  /** The login role of `mcp` for its own database. */
  statePassword?: string | undefined
  isLive: boolean
}

async function observeService(observer: ServicesObserver, request: ServicesRequest, one: One): Promise<Rendered> {
  const { config, address } = one
  const { secret, isLive } = await keysSecret(observer, request, one)
  const unready = (rendering: RenderingState, unminted: readonly MintedSecret[] = []): Rendered => ({
    service: { config, rendering, unminted, tokenDigest: undefined },
    isLive,
  })
  const { sealingKey, authority } = request.keys
  if (sealingKey === undefined || authority === undefined) return unready(awaited("the installation's keys"))
  if (config.secret !== undefined && secret === undefined)
    return unready(refused('KeysMissing', `there is no Secret ${config.secret.name}`))
  const keys = opened(() => keysOf(sealingKey, secret, request.isCopy))
  if ('message' in keys) return unready(refused('KeysUnreadable', keys.message))
  const [own, state] = mintedSecretsOf(one)
  const found = (secret: MintedSecret) => one.objects.minted.find(({ metadata }) => metadata.name === secret.name)
  const unminted = [own, ...(state === undefined ? [] : [state])].filter(secret => found(secret) === undefined)
  if (unminted.length > 0) return unready(awaited('its token'), unminted)
  const minted = openOne(sealingKey, found(own), own)
  if ('state' in minted) return unready(minted)
  const ofState = state === undefined ? undefined : openOne(sealingKey, found(state), state)
  if (ofState !== undefined && 'state' in ofState) return unready(ofState)
  const passwords = passwordsOf(request, sealingKey)
  if (passwords === undefined) return unready(awaited('the passwords of its roles'))
  const rendering = renderService({
    config,
    keys: keys.value,
    minted: { [own.field]: minted.value },
    state: ofState === undefined || one.mcpState?.taken !== undefined ? undefined : { password: ofState.value },
    database: {
      host: serviceHost(one.owner),
      port: postgresPort,
      name: applicationDatabase,
      authority: authority.bundle,
      passwords,
    },
    publicUrl: address && `${address.base}/${config.serviceType}`,
    settings: observer.services.settings as ServiceInput['settings'], // what zod leaves out it types as undefined
  })
  if (rendering.kind === 'refused') return unready(refusalOf(rendering, config))
  const { service } = rendering
  const { containers, writable, terminationGracePeriodSeconds } = service
  const pod = { containers, writable, terminationGracePeriodSeconds, contentDigest: digestOf(service.essential) }
  const token = config.serviceType === 'rag' ? minted.value : undefined
  return {
    service: {
      config,
      rendering: { state: 'rendered', pod },
      unminted: [],
      tokenDigest: token && tokenDigest(token),
    },
    files: service.files,
    password: config.serviceType === 'rest' ? minted.value : undefined,
    statePassword: ofState?.value,
    isLive,
  }
}

const awaited = (what: string): RenderingState => ({ state: 'awaited', message: `waiting for ${what}` })
const refused = (reason: Extract<RenderingState, { state: 'refused' }>['reason'], message: string): RenderingState => ({
  ...{ state: 'refused', reason, message },
})

function refusalOf(
  { fields, message }: Extract<Rendering, { kind: 'refused' }>,
  { secret }: ServiceConfig,
): RenderingState {
  if (fields.length === 0) return refused('ConfigurationRefused', message)
  const where = secret === undefined ? 'it names no Secret with keys' : `in Secret ${secret.name}`
  return refused('KeysMissing', `${message}: ${fields.join(', ')} (${where})`)
}

/** `isLive`: the Secret belongs to another owner, so no cache contains it, and it was read from the cluster. */
async function keysSecret(
  { cluster }: ServicesObserver,
  { owned, instance }: ServicesRequest,
  { config: { secret } }: One,
): Promise<{ secret: Secret | undefined; isLive: boolean }> {
  if (secret === undefined) return { secret: undefined, isLive: false }
  const known = owned.secrets.find(({ metadata }) => metadata.name === secret.name)
  if (known !== undefined) return { secret: known, isLive: false }
  const { namespace } = instance.metadata
  return { secret: await cluster.get('Secret', { namespace, name: secret.name }), isLive: true }
}

function keysOf(sealingKey: Uint8Array, secret: Secret | undefined, isCopy: boolean): ServiceKeys {
  const keys = secret === undefined ? {} : openServiceKeys(sealingKey, secret)
  return isCopy ? withoutKeysOfSource(keys) : keys
}

function opened<T>(open: () => T): { value: T } | { message: string } {
  try {
    return { value: open() }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return { message: error.message }
  }
}

/**
 * The secrets that the operator creates for a service. `mcp` needs its token even if users have tokens, because the
 * token seals the cursors.
 */
function mintedSecretsOf({ config, owner }: One): [own: MintedSecret, state?: MintedSecret] {
  const field = config.serviceType === 'rest' ? 'password' : 'token'
  const own: MintedSecret = { name: childNames.serviceSecret(owner.id, config.serviceId), field }
  return config.serviceType === 'mcp' ? [own, stateSecretOf(owner, config)] : [own]
}

function openOne(
  sealingKey: Uint8Array,
  secret: Secret | undefined,
  { name, field }: MintedSecret,
): { value: string } | RenderingState {
  const minted = opened(() => secret && openMinted(sealingKey, secret, field))
  if ('message' in minted) return refused('KeysUnreadable', minted.message)
  if (minted.value !== undefined) return { value: minted.value }
  return refused('KeysMissing', `Secret ${name} has no field ${field}: delete it to have another one created`)
}

/** The passwords of each role, newest first. */
function passwordsOf(
  { credentials, passwords }: ServicesRequest,
  sealingKey: Uint8Array,
): Record<DatabaseRole, string[]> | undefined {
  if (credentials === undefined || passwords === undefined) return undefined
  const previous = opened(() => openPrevious(credentials, sealingKey))
  if ('message' in previous) return undefined
  const of = (role: DatabaseRole) => [passwords[role], previous.value[role]].filter(known => known !== undefined)
  return { admin: of('admin'), app: of('app'), app_read_only: of('app_read_only') }
}

/** Lists the Leases from the cluster, as routes/route.ts requires, unless the route is unchanged. */
async function routeOf(
  { cluster, now }: ServicesObserver,
  { instance, isAtRest }: ServicesRequest,
  { routes }: ServiceObjects,
): Promise<HttpRouteFacts | undefined> {
  const [found] = routes
  if (found === undefined) return undefined
  const read = readAnyRoute(found)
  const route = read.kind === 'http' ? read.route : undefined
  if (isAtRest && conditionOf(instance.status, 'ServicesReady')?.status === 'True')
    return { route, acknowledged: true, waitingFor: [] }
  const { items } = await cluster.list('Lease', {
    namespace: systemNamespace,
    labels: { [labels.component]: gatewayComponent },
  })
  const { done, waitingFor } = acknowledged(found.metadata.resourceVersion ?? '', items, now())
  return { route, acknowledged: done, waitingFor }
}
