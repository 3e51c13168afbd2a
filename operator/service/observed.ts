/** The observed state of one owner's services. observe.ts reads it from the caches. It contains no secret. */
import type {
  AnyObject,
  ConfigMap,
  Deployment,
  NetworkPolicy,
  PodDisruptionBudget,
  Secret,
  Service,
} from '../../cluster/index.ts'
import type { ConfigurationFault, PgVersion, ServiceConfig } from '../../crds/index.ts'
import type { HttpRoute } from '../../routes/route.ts'
import type { MintedField } from '../../sealing/service-keys.ts'
import type { AuthenticatorObservation, McpStateObservation, References } from '../postgres/administrator.ts'
import type { RenderedService, ServiceType } from './configuration/index.ts'
import type { NamedWorkload } from './names.ts'
import type { ServiceInstallation } from './settings.ts'

/** The input of a service's pod, without secrets. `contentDigest`: the digest of the essential content of its files. */
export type RenderedPod = Pick<RenderedService, 'containers' | 'writable' | 'terminationGracePeriodSeconds'> & {
  contentDigest: string
}

/** Why a service cannot be rendered until a user changes something. */
type Refusal = { reason: 'KeysMissing' | 'KeysUnreadable' | 'ConfigurationRefused'; message: string }

/** `awaited`: secrets that the operator must create do not exist yet. */
export type RenderingState =
  | { state: 'rendered'; pod: RenderedPod }
  | { state: 'awaited'; message: string }
  | ({ state: 'refused' } & Refusal)

/** A value that the operator creates for a service, in a Secret of this name. */
export type MintedSecret = { name: string; field: MintedField }

export type RequestedService = {
  config: ServiceConfig
  rendering: RenderingState
  /** The values that the operator must still create for the service. */
  unminted: readonly MintedSecret[]
  /** SHA-256 of the bearer token that the gateway checks. */
  tokenDigest: string | undefined
}

export type ObservedWorkload = NamedWorkload & { deployment: Deployment }
type ObservedConfiguration = NamedWorkload & { secret: Secret }

export type ServicePod = {
  name: string
  /** Undefined if the object is being deleted. */
  live: { namespace: string; uid: string } | undefined
  type: string | undefined
  digest: string | undefined
  /** Why the pod does not become ready, and how often its containers were restarted. */
  problem: { reason: string; message: string; restarts: number } | undefined
}

type ByType<T> = Readonly<Partial<Record<ServiceType, T>>>

/** Only the owner's own objects. */
export type ServiceObjects = {
  workloads: readonly ObservedWorkload[]
  configurations: readonly ObservedConfiguration[]
  addresses: ByType<Service>
  networkPolicies: ByType<NetworkPolicy>
  disruptionBudgets: ByType<PodDisruptionBudget>
  /** Secrets with values that the operator created for a service. */
  minted: readonly Secret[]
  /** Secrets with keys that the API wrote. */
  keys: readonly Secret[]
  routes: readonly ConfigMap[]
}

/** `acknowledged`: every running gateway has applied the route. `waitingFor`: the gateways that have not. */
export type HttpRouteFacts = { route: HttpRoute | undefined; acknowledged: boolean; waitingFor: readonly string[] }

/** How clients outside the cluster reach the services. `base`: the URL without a service's type. */
export type ServiceAddress = { host: string; base: string }

/** The login of `rest`. `secret`: the name of the password's Secret. `passwordVersion`: that Secret's uid. */
export type ServiceLogin = { secret: string; passwordVersion: string; anonymousRoles: readonly string[] }

/**
 * The storage of `mcp` for its conversations. `secret`: the name of the Secret with the role's password;
 * `passwordVersion`: that Secret's uid. Both are undefined before the Secret is created. `taken`: a user created a role
 * or database with that name, so each pod keeps its own conversations.
 */
export type McpState = {
  login: { secret: string; passwordVersion: string } | undefined
  taken: 'role' | 'database' | 'unknown' | undefined
}

/** The state that Postgres last reported. */
export type SeenMcpState = McpStateObservation & { passwordVersion: string }

/** The login role of `rest`, as last reported by Postgres. */
export type Authenticator = AuthenticatorObservation & { passwordVersion: string }

export type ObservedServices = {
  installation: ServiceInstallation
  /** Undefined if no service needs a login, or before the password is created. */
  login: ServiceLogin | undefined
  /** Undefined if no service `mcp` is requested. */
  mcpState: McpState | undefined
  requested: readonly RequestedService[]
  objects: ServiceObjects
  pods: readonly ServicePod[]
  /** Undefined if the region has no HTTPS, or until the owner has its final id. */
  address: ServiceAddress | undefined
  route: HttpRouteFacts | undefined
  /** Whether objects may be deleted because of their age. */
  isClockTrusted: boolean
  /** The database objects that the services' configurations name. */
  references: References | undefined
  /** Rules that the configurations violate. The API would have refused them. */
  faults: readonly ConfigurationFault[]
  /** The Postgres versions whose images have pgvector, if a service needs it. */
  pgvectorVersions: readonly PgVersion[]
  /**
   * Set while an upgrade of the services' image waits for a slot: the time of the next request, in ms since the epoch.
   * Until then the serving pods are kept.
   */
  upgradeWaitsUntil: number | undefined
  /** Whether a Secret with keys is in no cache, so that it must be read again later. */
  readsKeys: boolean
}

export const noServiceObjects: ServiceObjects = {
  ...{ workloads: [], configurations: [], minted: [], keys: [], routes: [] },
  ...{ addresses: {}, networkPolicies: {}, disruptionBudgets: {} },
}

export const noServices = (installation: ServiceInstallation): ObservedServices => ({
  ...{ installation, requested: [], objects: noServiceObjects, pods: [], address: undefined, route: undefined },
  ...{ login: undefined, mcpState: undefined, isClockTrusted: true, readsKeys: false },
  ...{ references: undefined, pgvectorVersions: [], faults: [], upgradeWaitsUntil: undefined },
})

/** All objects that an action `apply` may change. */
export const childrenOfServices = ({ objects }: Pick<ObservedServices, 'objects'>): AnyObject[] => [
  ...objects.workloads.map(({ deployment }) => deployment),
  ...objects.configurations.map(({ secret }) => secret),
  ...Object.values(objects.addresses),
  ...Object.values(objects.networkPolicies),
  ...Object.values(objects.disruptionBudgets),
  ...objects.minted,
  ...objects.routes,
]
