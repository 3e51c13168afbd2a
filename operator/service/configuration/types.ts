/** The input from which a service is rendered, and the parts of the rendered pod. */
import type { ServiceConfig } from '../../../crds/services.ts'
import type { DatabaseRole } from '../../../sealing/credentials.ts'

export type ServiceType = ServiceConfig['serviceType']
export type Provider = 'anthropic' | 'openai' | 'voyage'

/** The part of the operator's configuration that changes the rendered pod. */
type ServiceSettings = {
  resources: Readonly<Record<ServiceType, ServiceResources>>
  /** Addresses of providers that differ from their public addresses. */
  baseUrls: Readonly<Partial<Record<Provider, string>>>
  /**
   * Addresses and blocks of the proxies whose `X-Forwarded-For` the services trust. Only the gateway can connect to the
   * pods.
   */
  trustedProxies: readonly string[]
}

/** Kubernetes quantities for each container of the pod. `mcp` has two containers. */
export type ServiceResources = {
  requests: Readonly<Record<'cpu' | 'memory', string>>
  limits: Readonly<Partial<Record<'cpu' | 'memory', string>>>
}

export type ServiceInput = {
  config: ServiceConfig
  /** Fields of the user's Secret, unsealed. Without the fields that a branch ignores. */
  keys: Readonly<Record<string, string>>
  /** Values that the operator created for this service: `token` of mcp and rag, `password` of rest's authenticator. */
  minted: { token?: string; password?: string }
  /** For mcp: the password for its separate database. Undefined if each pod keeps its own conversations. */
  state: { password: string } | undefined
  database: {
    host: string
    port: number
    name: string
    /** Certificates in PEM. */
    authority: string
    /** The passwords of each role, newest first. */
    passwords: Readonly<Record<DatabaseRole, readonly string[]>>
  }
  /** The URL for clients: `https://<domain>[:port][/<database id>]/<type>`. Undefined until the owner has a domain. */
  publicUrl: string | undefined
  settings: ServiceSettings
}

/** `refused`: the pod would not start. `fields`: fields of the Secret with the keys, or of `minted`. */
export type Rendering =
  | { kind: 'rendered'; service: RenderedService }
  | { kind: 'refused'; type: ServiceType; fields: readonly string[]; message: string }

export type RenderedService = {
  /**
   * The content of the immutable Secret, mounted read-only at `configurationDirectory`. To render it, the operator
   * hashes passwords, which takes 0.1 s or more each, off the event loop.
   */
  readonly files: () => Promise<Readonly<Record<string, string>>>
  containers: readonly ServiceContainer[]
  /** Directories on an emptyDir, because the root file system is read-only. */
  writable: readonly string[]
  terminationGracePeriodSeconds: number
  /** The input of the digest. Of several passwords it contains only the newest. */
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
  /** `$(POD_IP)` is the pod's address. The container has this variable from the downward API, as its first variable. */
  environment: Readonly<Record<string, string>>
  ports: readonly { name: string; port: number }[]
  startupProbe: HttpProbe
  readinessProbe: HttpProbe
  resources: ServiceResources
}

/** The directory where `RenderedService.files` are mounted. */
export const configurationDirectory = '/etc/espalier/service'
