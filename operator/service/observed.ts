/** What a pass knows of the services of one owner. Gathered from the caches by observe.ts; no secret is among it. */
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

/** What a pod of a service is made of, without secrets. `contentDigest`: of the essential content of its files. */
export type RenderedPod = Pick<RenderedService, 'containers' | 'writable' | 'terminationGracePeriodSeconds'> & {
  contentDigest: string
}

/** Why a service cannot be rendered until a user changes something. */
type Refusal = { reason: 'KeysMissing' | 'KeysUnreadable' | 'ConfigurationRefused'; message: string }

/** `awaited`: secrets that the operator creates are not there yet. */
export type RenderingState =
  | { state: 'rendered'; pod: RenderedPod }
  | { state: 'awaited'; message: string }
  | ({ state: 'refused' } & Refusal)

/** What the operator creates for a service: one value in a Secret of this name. */
export type MintedSecret = { name: string; field: MintedField }

export type RequestedService = {
  config: ServiceConfig
  rendering: RenderingState
  /** The values that the operator creates for it, where it has none yet. */
  unminted: readonly MintedSecret[]
  /** SHA-256 of the bearer token that the gateway checks. */
  tokenDigest: string | undefined
}

export type ObservedWorkload = NamedWorkload & { deployment: Deployment }
type ObservedConfiguration = NamedWorkload & { secret: Secret }

export type ServicePod = {
  name: string
  /** Undefined where it is being deleted. */
  live: { namespace: string; uid: string } | undefined
  type: string | undefined
  digest: string | undefined
  /** Why it does not become ready, and how often its containers have been restarted. */
  trouble: { reason: string; message: string; restarts: number } | undefined
}

type ByType<T> = Readonly<Partial<Record<ServiceType, T>>>

/** The owner's objects, and nobody else's. */
export type ServiceObjects = {
  workloads: readonly ObservedWorkload[]
  configurations: readonly ObservedConfiguration[]
  addresses: ByType<Service>
  networkPolicies: ByType<NetworkPolicy>
  disruptionBudgets: ByType<PodDisruptionBudget>
  /** Secrets with what the operator created for a service. */
  minted: readonly Secret[]
  /** Secrets with keys that the API wrote. */
  keys: readonly Secret[]
  routes: readonly ConfigMap[]
}

/** `acknowledged`: every live gateway has applied it; `waitingFor`: the gateways that have not. */
export type HttpRouteFacts = { route: HttpRoute | undefined; acknowledged: boolean; waitingFor: readonly string[] }

/** How clients outside the cluster reach the services. `base`: without the type of a service. */
export type ServiceAddress = { host: string; base: string }

/** The login of `rest`. `secret`: the name of that with its password, and `mark` its uid. */
export type ServiceLogin = { secret: string; mark: string; anonymousRoles: readonly string[] }

/**
 * Where `mcp` keeps its conversations. `secret`: the name of that with the password of its role, and `mark` its uid; undefined before it is
 * minted. `taken`: a user made a role or database of that name, so each pod keeps its own.
 */
export type McpState = {
  login: { secret: string; mark: string } | undefined
  taken: 'role' | 'database' | 'unknown' | undefined
}

/** As Postgres was last seen to have it. */
export type SeenMcpState = McpStateObservation & { mark: string }

/** The role by which `rest` logs in, as Postgres was last seen to have it. */
export type Authenticator = AuthenticatorObservation & { mark: string }

export type ObservedServices = {
  installation: ServiceInstallation
  /** Undefined where no service needs it, or before its password is minted. */
  login: ServiceLogin | undefined
  /** Undefined where no service `mcp` is requested. */
  mcpState: McpState | undefined
  requested: readonly RequestedService[]
  objects: ServiceObjects
  pods: readonly ServicePod[]
  /** Undefined where the region serves no HTTPS, or before the owner's id is settled. */
  address: ServiceAddress | undefined
  route: HttpRouteFacts | undefined
  /** Whether something may be deleted by its age. */
  isClockTrusted: boolean
  /** What the configurations name in the database. */
  references: References | undefined
  /** What breaks a rule in the configurations, which the API would have refused. */
  faults: readonly ConfigurationFault[]
  /** The versions whose images have pgvector, where a service needs it. */
  pgvectorVersions: readonly PgVersion[]
  /** A Secret with keys that no cache follows: it is read again after a while. */
  readsKeys: boolean
}

export const noServiceObjects: ServiceObjects = {
  ...{ workloads: [], configurations: [], minted: [], keys: [], routes: [] },
  ...{ addresses: {}, networkPolicies: {}, disruptionBudgets: {} },
}

export const noServices = (installation: ServiceInstallation): ObservedServices => ({
  ...{ installation, requested: [], objects: noServiceObjects, pods: [], address: undefined, route: undefined },
  ...{ login: undefined, mcpState: undefined, isClockTrusted: true, readsKeys: false },
  ...{ references: undefined, pgvectorVersions: [], faults: [] },
})

/** All objects that an apply may change. */
export const childrenOfServices = ({ objects }: Pick<ObservedServices, 'objects'>): AnyObject[] => [
  ...objects.workloads.map(({ deployment }) => deployment),
  ...objects.configurations.map(({ secret }) => secret),
  ...Object.values(objects.addresses),
  ...Object.values(objects.networkPolicies),
  ...Object.values(objects.disruptionBudgets),
  ...objects.minted,
  ...objects.routes,
]
