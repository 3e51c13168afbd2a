/** The settings of the authorization server. */
import type { Scope } from '../../mcp-protocol/scopes.ts'

export type BuiltinUser = {
  readonly username: string
  /** Of scrypt. */
  readonly passwordHash: string
  readonly scopes: readonly Scope[]
}

export type Branding = {
  readonly pageTitle: string
  readonly heading: string
  readonly subtitle: string
  readonly usernameLabel: string
  readonly passwordLabel: string
  readonly buttonText: string
  readonly footerText: string
  /** `#rrggbb`; undefined: the page's own. */
  readonly primaryColor: string | undefined
}

export type FederatedSettings = {
  readonly upstreamIssuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly scopes: readonly string[]
  /** Of verified e-mail addresses; none: everybody whom the provider knows. */
  readonly allowedDomains: readonly string[]
  readonly defaultScopes: readonly Scope[]
}

/** A client that the configuration names. */
export type ConfiguredClient = {
  readonly clientId: string
  readonly clientName: string
  /** undefined: a public client. */
  readonly secretSha256: string | undefined
  readonly redirectUris: readonly string[]
  /** For itself, without a user, by client_credentials; none: it may not. */
  readonly ownScopes: readonly Scope[]
}

export type OAuthSettings = {
  /** Without a slash at its end. */
  readonly issuer: string
  /** The identifiers of what tokens are for; the first is the default. */
  readonly resources: readonly string[]
  readonly login:
    | { readonly mode: 'builtin'; readonly users: readonly BuiltinUser[] }
    | { readonly mode: 'federated'; readonly provider: FederatedSettings }
  readonly branding: Branding
  readonly accessTokenSeconds: number
  readonly refreshTokenSeconds: number
  readonly codeSeconds: number
  readonly keyFile: string
  /** A path of a file, or a `postgresql://` address. */
  readonly state:
    | { readonly kind: 'sqlite'; readonly path: string }
    | { readonly kind: 'postgres'; readonly uri: string }
  readonly clients: readonly ConfiguredClient[]
  readonly allowDynamicRegistration: boolean
  readonly allowClientIdMetadata: boolean
  /** Where clients that are not configured may be sent; `loopback` is any address of this machine. */
  readonly allowedRedirectUris: readonly string[]
  readonly loginAttempts: { readonly maximum: number; readonly windowMs: number }
}
