/** The input from which a service is rendered, and the parts of its pod. */
import type { ServiceConfig } from '../../../crds/services.ts'
import type { DatabaseRole } from '../../../sealing/credentials.ts'

export type ServiceType = ServiceConfig['serviceType']
export type Provider = 'anthropic' | 'openai' | 'voyage'

/** The part of the operator's configuration that affects rendering. */
type ServiceSettings = {
  resources: Readonly<Record<ServiceType, ServiceResources>>
  /** The address of a provider, if not its public one. */
  baseUrls: Readonly<Partial<Record<Provider, string>>>
  /**
   * Addresses and blocks of the proxies whose `X-Forwarded-For` the services trust. Only the gateway reaches the pods.
   */
  trustedProxies: readonly string[]
}

/** Kubernetes quantities, for each container of the pod: `mcp` has two. */
export type ServiceResources = {
  requests: Readonly<Record<'cpu' | 'memory', string>>
  limits: Readonly<Partial<Record<'cpu' | 'memory', string>>>
}

export type ServiceInput = {
  config: ServiceConfig
  /** Fields of the user's Secret, unsealed, without those that a branch ignores. */
  keys: Readonly<Record<string, string>>
  /** What the operator created for this service: `token` of mcp and rag, `password` of the authenticator of rest. */
  minted: { token?: string; password?: string }
  /** For mcp: the password for its own database; undefined: each pod keeps its own conversations. */
  state: { password: string } | undefined
  database: {
    host: string
    port: number
    name: string
    /** Certificates in PEM. */
    authority: string
    /** Of each role, newest first. */
    passwords: Readonly<Record<DatabaseRole, readonly string[]>>
  }
  /** The address for clients: `https://<domain>[:port][/<database id>]/<type>`; undefined until there is a domain. */
  publicUrl: string | undefined
  settings: ServiceSettings
}

/** `refused`: the pod would not start. `fields` are fields of the Secret that contains the keys, or of `minted`. */
export type Rendering =
  | { kind: 'rendered'; service: RenderedService }
  | { kind: 'refused'; type: ServiceType; fields: readonly string[]; message: string }

export type RenderedService = {
  /**
   * Content of the immutable Secret, mounted read-only at `configurationDirectory`. Hashing passwords for it takes 0.1
   * s or more each, off the event loop.
   */
  readonly files: () => Promise<Readonly<Record<string, string>>>
  containers: readonly ServiceContainer[]
  /** Directories on an emptyDir: the root file system is read-only. */
  writable: readonly string[]
  terminationGracePeriodSeconds: number
  /** The input of the digest: of several passwords only the newest. */
  essential: unknown
}

type HttpProbe = {
  httpGet: { port: number; path: string }
  periodSeconds: number
  timeoutSeconds: number
  failureThreshold: number
}

export type ServiceContainer = {
  name: string
  args: readonly string[]
  /** `$(POD_IP)` is the address of the pod: the container has this variable from the downward API, as its first one. */
  environment: Readonly<Record<string, string>>
  ports: readonly { name: string; port: number }[]
  startupProbe: HttpProbe
  readinessProbe: HttpProbe
  resources: ServiceResources
}

/** Where `RenderedService.files` are mounted. */
export const configurationDirectory = '/etc/espalier/service'
