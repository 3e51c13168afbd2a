/** The settings of the tool server, after file, environment and command line have been read and checked. */

import type { PeerSettings } from '../../http/peers/types.ts'
import type { Address } from '../../postgres/address.ts'
import type { CustomDefinitions } from '../custom/read.ts'

export type DatabaseSettings = {
  /** Unique; the name for grants and selection. */
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
  /** Whether destructive statements run for a client that cannot ask its user. */
  readonly allowUnconfirmed: boolean
  /** Whether writes are allowed with a superuser login or similar. */
  readonly allowPrivilegedLogin: boolean
  /** Whether statements may read columns that may contain a password. */
  readonly showSecrets: boolean
  /** Maximum number of connections. */
  readonly poolSize: number
  /** Minimum number of connections that remain open while idle. */
  readonly poolMinimum: number
  /**
   * How long a connection above the minimum may be idle; the maximum age of a connection; how often both are checked.
   */
  readonly poolIdleMs: number
  readonly poolLifetimeMs: number
  readonly poolCheckMs: number
  readonly connectTimeoutMs: number
  readonly statementTimeoutMs: number
  /** How long catalogue data is cached. */
  readonly metadataMs: number
  /** User names; undefined: all. Users can be restricted to databases as well. */
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
  /** How replicas connect to each other; undefined: there is one server. */
  readonly peer?: PeerSettings | undefined
  readonly host: string
  readonly port: number
  readonly tls:
    | { readonly certificateFile: string; readonly keyFile: string; readonly chainFile: string | undefined }
    | undefined
  /** Besides loopback and requests without an Origin, which are always allowed. */
  readonly allowedOrigins: readonly string[]
  /** Proxies whose X-Forwarded-For is trusted, as CIDR blocks; none by default. */
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
  /** undefined: stdio. */
  readonly http: HttpSettings | undefined
  readonly databases: readonly DatabaseSettings[]
  readonly embedding: EmbeddingSettings | undefined
  /** The available ones; the first is the default. */
  readonly llm: readonly LlmSettings[]
  readonly knowledgebase: { readonly path: string; readonly embedding: EmbeddingSettings } | undefined
  /** Custom prompts, resources and tools of the operator; missing if no file defines any. */
  readonly custom?: CustomDefinitions
  /** The directory of conversations, unless they are in Postgres. */
  readonly dataDirectory: string
  /** The Postgres for conversations; undefined: they are in the data directory. */
  readonly state?: Address | undefined
  /** Tools, resources and prompts that are switched off, by name. */
  readonly disabled: ReadonlySet<string>
  readonly limits: {
    /** The limit of one result, in tokens. */
    readonly resultTokens: number
    /** The limit of one page of rows of `query_database`, in tokens; defaults to `resultTokens`. */
    readonly queryTokens?: number
    /** The limit of the data for one result, in bytes. */
    readonly resultBytes: number
    readonly requestBytes: number
  }
  /** 32 bytes that seal server state carried by clients; random for this process if not configured. */
  readonly sealingKey: Uint8Array
  readonly logLevel: string
  /** Which statements the audit log has the text of. */
  readonly auditStatements: 'none' | 'reads' | 'all'
}
