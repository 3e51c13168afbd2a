/** The tool server's settings, after they were read from file, environment and command line, and checked. */

import type { PeerSettings } from '../../http/peers/types.ts'
import type { Address } from '../../postgres/address.ts'
import type { CustomDefinitions } from '../custom/read.ts'

export type DatabaseSettings = {
  /** The unique name that grants and selections use. */
  readonly name: string
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
  readonly password: string | undefined
  readonly sslmode: 'disable' | 'allow' | 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  readonly sslrootcert: string | undefined
  readonly sslcert: string | undefined
  readonly sslkey: string | undefined
  readonly channelBinding: 'disable' | 'prefer' | 'require'
  readonly allowWrites: boolean
  /** Whether destructive statements run if the client cannot ask its user for confirmation. */
  readonly allowUnconfirmed: boolean
  /** Whether writes are allowed if the server connects as a superuser or a similarly privileged role. */
  readonly allowPrivilegedLogin: boolean
  /** Whether statements may read columns that could contain a password. */
  readonly showSecrets: boolean
  /** The maximum number of connections. */
  readonly poolSize: number
  /** The minimum number of connections that stay open while idle. */
  readonly poolMinimum: number
  /**
   * `poolIdleMs`: how long a connection above the minimum may be idle. `poolLifetimeMs`: the maximum age of a
   * connection. `poolCheckMs`: how often the pool checks both.
   */
  readonly poolIdleMs: number
  readonly poolLifetimeMs: number
  readonly poolCheckMs: number
  readonly connectTimeoutMs: number
  readonly statementTimeoutMs: number
  /** How long catalogue data is cached. */
  readonly metadataMs: number
  /** The users who may use this database; undefined: all users. A user can also be restricted to some databases. */
  readonly availableToUsers: readonly string[] | undefined
}

export type EmbeddingSettings = {
  readonly provider: 'voyage' | 'openai' | 'ollama' | 'gemini'
  readonly model: string
  readonly apiKey: string | undefined
  readonly baseUrl: string | undefined
  readonly timeoutMs: number
}

export type LlmSettings = {
  readonly provider: 'anthropic' | 'openai' | 'gemini' | 'ollama'
  readonly model: string | undefined
  readonly apiKey: string | undefined
  readonly baseUrl: string | undefined
  readonly maximumTokens: number
  /** undefined: the model's default. */
  readonly temperature: number | undefined
  readonly timeoutMs: number
}

export type HttpSettings = {
  /** How replicas connect to each other; undefined if there is only one server. */
  readonly peer?: PeerSettings | undefined
  readonly host: string
  readonly port: number
  readonly tls:
    | { readonly certificateFile: string; readonly keyFile: string; readonly chainFile: string | undefined }
    | undefined
  /** Origins that are allowed in addition to loopback and requests without an Origin. */
  readonly allowedOrigins: readonly string[]
  /** Proxies whose X-Forwarded-For the server trusts, as CIDR blocks; none by default. */
  readonly trustedProxies: readonly string[]
  readonly authentication: {
    readonly enabled: boolean
    readonly tokenFile: string
    readonly userFile: string
    readonly rateLimitWindowMinutes: number
    readonly rateLimitMaximumAttempts: number
    /** 0: off. */
    readonly maximumFailedAttemptsBeforeLockout: number
  }
}

export type McpSettings = {
  /** undefined: the server uses stdio. */
  readonly http: HttpSettings | undefined
  readonly databases: readonly DatabaseSettings[]
  readonly embedding: EmbeddingSettings | undefined
  /** The available providers; the first is the default. */
  readonly llm: readonly LlmSettings[]
  readonly knowledgebase: { readonly path: string; readonly embedding: EmbeddingSettings } | undefined
  /** The installation's own prompts, resources and tools; missing if no file defines any. */
  readonly custom?: CustomDefinitions
  /** The directory of conversations, unless Postgres stores them. */
  readonly dataDirectory: string
  /** The Postgres that stores conversations; undefined if the data directory stores them. */
  readonly state?: Address | undefined
  /** Names of disabled tools, resources and prompts. */
  readonly disabled: ReadonlySet<string>
  readonly limits: {
    /** The maximum size of one result, in tokens. */
    readonly resultTokens: number
    /** The maximum size of one page of rows of `query_database`, in tokens; defaults to `resultTokens`. */
    readonly queryTokens?: number
    /** The maximum data that the server reads for one result, in bytes. */
    readonly resultBytes: number
    readonly requestBytes: number
  }
  /**
   * The 32-byte key that seals server state, which clients carry. Random for this process if no secret is configured.
   */
  readonly sealingKey: Uint8Array
  readonly logLevel: string
  /** The statements whose text the audit log contains. */
  readonly auditStatements: 'none' | 'reads' | 'all'
}
