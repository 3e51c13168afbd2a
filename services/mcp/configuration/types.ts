/** The settings of the tool server, as they are once file, environment and command line have been read and checked. */

import type { PeerSettings } from '../../http/peers/types.ts'
import type { Address } from '../../postgres/address.ts'
import type { CustomDefinitions } from '../custom/read.ts'

export type DatabaseSettings = {
  /** Unique; what callers are granted and select. */
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
  /** Whether what destroys runs for a client that cannot ask its user. */
  readonly allowUnconfirmed: boolean
  /** Whether writes are allowed with a login that is a superuser or the like. */
  readonly allowPrivilegedLogin: boolean
  /** Whether statements may read what may hold a password. */
  readonly showSecrets: boolean
  /** Connections at most. */
  readonly poolSize: number
  /** Connections that are kept open while nobody uses them. */
  readonly poolMinimum: number
  /** How long a connection above the minimum is kept that nobody uses; how old one may get; how often both are checked. */
  readonly poolIdleMs: number
  readonly poolLifetimeMs: number
  readonly poolCheckMs: number
  readonly connectTimeoutMs: number
  readonly statementTimeoutMs: number
  /** How long what was read of its catalogue is believed. */
  readonly metadataMs: number
  /** Names of users; undefined: all. Users say themselves too which databases they may use. */
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
  /** undefined: the model's own. */
  readonly temperature: number | undefined
  readonly timeoutMs: number
}

export type HttpSettings = {
  /** How replicas reach one another; undefined: this server is alone. */
  readonly peer?: PeerSettings | undefined
  readonly host: string
  readonly port: number
  readonly tls:
    | { readonly certificateFile: string; readonly keyFile: string; readonly chainFile: string | undefined }
    | undefined
  /** Beside loopback and none at all, which are always allowed. */
  readonly allowedOrigins: readonly string[]
  /** Whose X-Forwarded-For is believed, as CIDR blocks; nobody's by default. */
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
  /** Those that can be asked; the first is the default. */
  readonly llm: readonly LlmSettings[]
  readonly knowledgebase: { readonly path: string; readonly embedding: EmbeddingSettings } | undefined
  /** Prompts, resources and tools of the operator's own; absent where no file has any. */
  readonly custom?: CustomDefinitions
  /** Where conversations are kept, unless they are kept in Postgres. */
  readonly dataDirectory: string
  /** The Postgres where conversations are kept; undefined: they are kept in the data directory. */
  readonly state?: Address | undefined
  /** Tools, resources and prompts that are switched off, by name. */
  readonly disabled: ReadonlySet<string>
  readonly limits: {
    /** Of one result, in tokens. */
    readonly resultTokens: number
    /** Of one page of rows of `query_database`, in tokens; `resultTokens` where it is not given. */
    readonly queryTokens?: number
    /** Of what one result is made from, in bytes. */
    readonly resultBytes: number
    readonly requestBytes: number
  }
  /** 32 bytes that seal what clients carry for the server; made for this process where none is given. */
  readonly sealingKey: Uint8Array
  readonly logLevel: string
  /** Whose text the audit log has. */
  readonly auditStatements: 'none' | 'reads' | 'all'
}
