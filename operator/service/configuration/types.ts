/** What a service is rendered from, and what its pod is made of. */
import type { ServiceConfig } from '../../../crds/services.ts'
import type { DatabaseRole } from '../../../sealing/credentials.ts'

export type ServiceType = ServiceConfig['serviceType']
export type Provider = 'anthropic' | 'openai' | 'voyage'

/** The part of the operator's configuration that decides what is rendered. */
type ServiceSettings = {
  resources: Readonly<Record<ServiceType, ServiceResources>>
  /** Where a provider is, if not at its public address. */
  baseUrls: Readonly<Partial<Record<Provider, string>>>
  /** Addresses and blocks of the proxies whose `X-Forwarded-For` the services believe. Only the gateway reaches the pods. */
  trustedProxies: readonly string[]
}

/** Quantities of Kubernetes, of each container of the pod: `mcp` has two. A probe is a process of its own beside the server. */
export type ServiceResources = {
  requests: Readonly<Record<'cpu' | 'memory', string>>
  limits: Readonly<Partial<Record<'cpu' | 'memory', string>>>
}

export type ServiceInput = {
  config: ServiceConfig
  /** Fields of the user's Secret, opened, without those that a branch ignores. */
  keys: Readonly<Record<string, string>>
  /** What the operator created for this service: `token` of mcp and rag, `password` of the authenticator of rest. */
  minted: { token?: string; password?: string }
  /** Of mcp: the password by which it logs in to its own database; undefined: each pod keeps its own conversations. */
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
  /** What clients use: `https://<domain>[:port][/<database id>]/<type>`; undefined until there is a domain. */
  publicUrl: string | undefined
  settings: ServiceSettings
}

/** `refused`: the pod would not start. `fields` are fields of the Secret that holds the keys, or of `minted`. */
export type Rendering =
  | { kind: 'rendered'; service: RenderedService }
  | { kind: 'refused'; type: ServiceType; fields: readonly string[]; message: string }

export type RenderedService = {
  /** Content of the immutable Secret, mounted read-only at `configurationDirectory`. Made when it is read: hashing passwords takes 0.1 s each. */
  readonly files: Readonly<Record<string, string>>
  containers: readonly ServiceContainer[]
  /** Directories on an emptyDir: the root file system is read-only. */
  writable: readonly string[]
  terminationGracePeriodSeconds: number
  /** What the digest is made of: of several passwords only the newest. */
  essential: unknown
}

/** A request to the server, or a command that sends one. */
type Asking = { exec: readonly string[] } | { httpGet: { port: number; path: string } }

export type ServiceContainer = {
  name: string
  args: readonly string[]
  /** `$(POD_IP)` is the address of the pod: the container has this variable by the downward API, as the first of its environment. */
  environment: Readonly<Record<string, string>>
  ports: readonly { name: string; port: number }[]
  startupProbe: Asking & { periodSeconds: number; timeoutSeconds: number; failureThreshold: number }
  readinessProbe: {
    httpGet: { port: number; path: string }
    periodSeconds: number
    timeoutSeconds: number
    failureThreshold: number
  }
  resources: ServiceResources
}

/** Where `RenderedService.files` are mounted. */
export const configurationDirectory = '/etc/espalier/service'
