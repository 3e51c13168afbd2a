/** The keys of `oauth_server`, and the settings of the authorization server. docs/mcp.md documents the keys. */
import { z } from 'zod'
import { isPasswordHash } from '../../authentication/password.ts'
import { key, List, optional, required, type Settings } from '../../configuration/declaration.ts'
import * as values from '../../configuration/values.ts'
import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'
import type { Address } from '../../postgres/address.ts'
import { anyLoopback, isRedirectUri, usualRedirectUris } from './redirect.ts'

const label = () => values.text('must be at most 200 characters', text => text.length <= 200)

const scopeList = (least: number) => ({
  type: 'list' as const,
  rule: `must be a list of ${least > 0 ? 'at least one of ' : ''}${scopes.join(', ')}`,
  schema: values.entries('', () => true).schema.pipe(z.array(z.enum(scopes)).min(least)),
})

const redirectUris = (isAllowed = isRedirectUri) =>
  values.entries(
    "must be https URLs, http on loopback, or URIs of an app's own scheme, without fragments",
    uri => uri.length <= 2_000 && isAllowed(uri),
  )

const user = {
  username: required(
    values.text('must be 1 to 128 characters without spaces', text => /^[^\s\p{C}]{1,128}$/u.test(text)),
  ),
  password_hash: required(
    values.text('must be an scrypt hash, made by espalier mcp-bridge --hash-password', isPasswordHash),
    { isSecret: true },
  ),
  scopes: key(scopeList(1), scopes.join()),
}

const client = {
  client_id: required(values.text('must be 1 to 128 letters, digits and ._:-', text => /^[\w.:-]{1,128}$/.test(text))),
  client_name: optional(label()),
  /** undefined for a public client. */
  client_secret_sha256: optional(values.text('must be 64 hexadecimal digits', text => /^[0-9a-f]{64}$/.test(text))),
  redirect_uris: key(redirectUris(), ''),
  /** Scopes for client_credentials. Empty: the client may not use client_credentials. */
  client_credentials_scopes: key(scopeList(0), ''),
}

const branding = {
  page_title: key(label(), 'Sign in'),
  heading: key(label(), 'Sign in'),
  subtitle: key(label(), ''),
  username_label: key(label(), 'User name'),
  password_label: key(label(), 'Password'),
  button_text: key(label(), 'Sign in and allow'),
  footer_text: key(label(), ''),
  /** undefined: the default colour. */
  primary_color: optional(values.text('must be a colour such as #336791', text => /^#[0-9a-fA-F]{6}$/.test(text))),
}

const most = 10_000

export const oauthKeys = {
  enabled: key(values.truth(), false),
  issuer: optional(values.httpUri()),
  mode: key(values.choice('builtin', 'federated'), 'builtin'),
  token_lifetime: key(values.duration(1_000, 86_400_000), '1h'),
  refresh_token_lifetime: key(values.duration(1_000, 31_536_000_000), '30d'),
  auth_code_lifetime: key(values.duration(1_000, 600_000), '2m'),
  signing: {
    key_file: key(values.path(), 'oauth-keys.json'),
    in_state: key(values.truth(), false),
    secret: optional(values.longSecret(), { isSecret: true }),
  },
  state: key(values.secret(), 'oauth-state.sqlite'),
  state_password: optional(values.passwords(), { isSecret: true }),
  builtin: { users: new List(() => user, most), branding },
  federated: {
    upstream_issuer: optional(values.httpUri()),
    client_id: optional(values.words()),
    client_secret: optional(
      values.text('must not be empty', text => text !== ''),
      { isSecret: true },
    ),
    scopes: key(
      values.entries('must be scopes', () => true),
      'openid, email',
    ),
    /** Domains of verified e-mail addresses. Empty: every user of the provider may sign in. */
    allowed_domains: key(
      values.entries('must be domains', () => true),
      '',
    ),
    default_scopes: key(scopeList(1), 'mcp:read'),
  },
  clients: new List(() => client, most),
  allow_dynamic_registration: key(values.truth(), false),
  allow_client_id_metadata: key(values.truth(), true),
  allowed_redirect_uris: key(
    redirectUris(uri => uri === anyLoopback || isRedirectUri(uri)),
    usualRedirectUris.join(),
  ),
  login_max_attempts: key(values.integer(1, 1_000), 10),
  login_window: key(values.duration(1_000, 86_400_000), '15m'),
}

export type ReadOAuth = Settings<typeof oauthKeys>
export type BuiltinUser = Settings<typeof user>
export type Branding = Settings<typeof branding>
export type FederatedSettings = ReadOAuth['federated'] & { readonly upstreamIssuer: string; readonly clientId: string }

/** A client of the configuration. */
export type ConfiguredClient = {
  readonly clientId: string
  readonly clientName: string
  /** undefined for a public client. */
  readonly secretSha256: string | undefined
  readonly redirectUris: readonly string[]
  /** Scopes for client_credentials. Empty: the client may not use client_credentials. */
  readonly ownScopes: readonly Scope[]
}

export type OAuthSettings = {
  /** The issuer without a trailing slash. */
  readonly issuer: string
  /** The audiences of tokens; the first is the default. */
  readonly resources: readonly string[]
  readonly login:
    | { readonly mode: 'builtin'; readonly users: readonly BuiltinUser[] }
    | { readonly mode: 'federated'; readonly provider: FederatedSettings }
  readonly branding: Branding
  readonly accessTokenSeconds: number
  readonly refreshTokenSeconds: number
  readonly codeSeconds: number
  /** The location of the signing keys. */
  readonly signing:
    | { readonly kind: 'file'; readonly path: string }
    | { readonly kind: 'state'; readonly secret: string }
  /** A file path, or a `postgresql://` address. */
  readonly state:
    | { readonly kind: 'sqlite'; readonly path: string }
    | { readonly kind: 'postgres'; readonly address: Address }
  readonly clients: readonly ConfiguredClient[]
  readonly allowDynamicRegistration: boolean
  readonly allowClientIdMetadata: boolean
  /** Allowed redirects of clients that are not configured. `loopback` allows every address of this machine. */
  readonly allowedRedirectUris: readonly string[]
  readonly loginAttempts: { readonly maximum: number; readonly windowMs: number }
}
