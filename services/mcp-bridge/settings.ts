/** The bridge's settings, after its file was read and checked. */
import type { Certificate, CertificateFiles } from '../../server/certificate.ts'
import type { PeerSettings } from '../http/peers/types.ts'
import type { StreamBounds } from '../mcp-protocol/event-stream.ts'
import type { ConfiguredToken } from './callers.ts'
import type { OAuthSettings } from './oauth/settings.ts'
import type { OriginSettings } from './origin.ts'
import type { SubprocessSettings } from './subprocess.ts'

export type BridgeSettings = {
  readonly host: string
  readonly port: number
  /** The URL as clients write it, without a trailing slash. */
  readonly publicUrl: string | undefined
  readonly tls: { readonly certificate: Certificate; readonly files: CertificateFiles } | undefined
  readonly origin: OriginSettings
  readonly trustedProxies: readonly string[]
  /** How replicas connect to each other; undefined if there is only one bridge. */
  readonly peer: PeerSettings | undefined
  readonly keepAliveMs: number
  readonly maximumBodyBytes: number
  readonly maximumStreams: number
  readonly authentication:
    | { readonly type: 'none' }
    | { readonly type: 'bearer' | 'oauth'; readonly tokens: readonly ConfiguredToken[] }
  readonly subprocess: SubprocessSettings
  readonly requestTimeoutMs: number
  readonly maximumInFlight: number
  readonly maximumInFlightPerSession: number
  readonly session: {
    readonly timeoutMs: number
    readonly maximumSessions: number
    readonly cleanupIntervalMs: number
    readonly streamBounds: StreamBounds
  }
  readonly oauth: OAuthSettings | undefined
  readonly logLevel: string
}
