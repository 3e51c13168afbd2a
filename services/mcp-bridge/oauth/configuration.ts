/** `oauth_server` of the bridge's file. */
import { z } from 'zod'
import { isPasswordHash } from '../../authentication/password.ts'
import { isLoopbackName } from '../../mcp-protocol/origin.ts'
import { scopes } from '../../mcp-protocol/scopes.ts'
import { BridgeConfigurationError } from '../errors.ts'
import { anyLoopback, isRedirectUri, usualRedirectUris } from './redirect.ts'
import type { OAuthSettings } from './settings.ts'
import { duration } from './values.ts'

const scope = z.enum(scopes)
const text = z.string().max(200)
const color = z.string().regex(/^#[0-9a-fA-F]{6}$/, 'must be a colour such as #336791')
const redirectUri = z
  .string()
  .max(2_000)
  .refine(isRedirectUri, "must be an https URL, http on loopback, or a URI of an app's own scheme, without a fragment")

const user = z.strictObject({
  username: z.string().regex(/^[^\s\p{C}]{1,128}$/u, 'has 1 to 128 characters, none of them a space'),
  password_hash: z
    .string()
    .refine(isPasswordHash, 'must be an scrypt hash, as espalier mcp-bridge --hash-password makes it'),
  scopes: z
    .array(scope)
    .nonempty()
    .default([...scopes]),
})

const client = z.strictObject({
  client_id: z.string().regex(/^[\w.:-]{1,128}$/, 'has 1 to 128 letters, digits and ._:-'),
  client_name: text.optional(),
  client_secret_sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'a SHA-256 is 64 hexadecimal digits')
    .optional(),
  redirect_uris: z.array(redirectUri).default([]),
  client_credentials_scopes: z.array(scope).default([]),
})

const branding = z
  .strictObject({
    page_title: text.default('Sign in'),
    heading: text.default('Sign in'),
    subtitle: text.default(''),
    username_label: text.default('User name'),
    password_label: text.default('Password'),
    button_text: text.default('Sign in and allow'),
    footer_text: text.default(''),
    primary_color: color.optional(),
  })
  .prefault({})

export const oauthSchema = z.strictObject({
  enabled: z.boolean().default(false),
  issuer: z.url({ protocol: /^https?$/ }).optional(),
  mode: z.enum(['builtin', 'federated']).default('builtin'),
  token_lifetime: duration(1_000, 86_400_000).default(3_600_000),
  refresh_token_lifetime: duration(1_000, 31_536_000_000).default(2_592_000_000),
  auth_code_lifetime: duration(1_000, 600_000).default(120_000),
  signing: z.strictObject({ key_file: z.string().default('oauth-keys.json') }).prefault({}),
  state: z.string().default('oauth-state.sqlite'),
  builtin: z.strictObject({ users: z.array(user).default([]), branding }).prefault({}),
  federated: z
    .strictObject({
      upstream_issuer: z.url({ protocol: /^https?$/ }),
      client_id: z.string().min(1),
      client_secret: z.string().min(1).optional(),
      scopes: z.array(z.string()).default(['openid', 'email']),
      allowed_domains: z.array(z.string().toLowerCase()).default([]),
      default_scopes: z.array(scope).nonempty().default(['mcp:read']),
    })
    .optional(),
  clients: z.array(client).default([]),
  allow_dynamic_registration: z.boolean().default(false),
  allow_client_id_metadata: z.boolean().default(true),
  allowed_redirect_uris: z.array(z.union([z.literal(anyLoopback), redirectUri])).default([...usualRedirectUris]),
  login_max_attempts: z.number().int().min(1).max(1_000).default(10),
  login_window: duration(1_000, 86_400_000).default(900_000),
})

const isLocal = (url: string) => isLoopbackName(new URL(url).hostname)

/** @throws BridgeConfigurationError */
export function oauthSettings(
  file: z.infer<typeof oauthSchema> | undefined,
  publicUrl: string | undefined,
  inFolder: (path: string) => string,
): OAuthSettings | undefined {
  if (file?.enabled !== true) return undefined
  const problem = (what: string) => new BridgeConfigurationError([what])
  if (publicUrl === undefined) throw problem('server.public_url: oauth_server takes the URL that clients use')
  const issuer = (file.issuer ?? publicUrl).replace(/\/+$/, '')
  for (const url of [issuer, publicUrl])
    if (!url.startsWith('https:') && !isLocal(url)) throw problem('oauth_server.issuer: must be https, but on loopback')
  const origins = new Set([issuer, publicUrl].map(url => new URL(url).origin))
  if (origins.size > 1) throw problem('oauth_server.issuer: must be of the same origin as server.public_url')
  const { builtin, federated, clients } = file
  if (file.mode === 'federated' && federated === undefined) throw problem('oauth_server.federated: is missing')
  const names = builtin.users.map(one => one.username)
  if (new Set(names).size < names.length) throw problem('oauth_server.builtin.users: a username is there twice')
  const { branding: brand } = builtin
  return {
    issuer,
    resources: [`${publicUrl}/mcp`, publicUrl],
    login:
      file.mode === 'federated' && federated !== undefined
        ? {
            mode: 'federated',
            provider: {
              upstreamIssuer: federated.upstream_issuer,
              clientId: federated.client_id,
              clientSecret: federated.client_secret,
              scopes: [...new Set(['openid', ...federated.scopes])],
              allowedDomains: federated.allowed_domains,
              defaultScopes: federated.default_scopes,
            },
          }
        : {
            mode: 'builtin',
            users: builtin.users.map(({ username, password_hash, scopes: own }) => ({
              username,
              passwordHash: password_hash,
              scopes: own,
            })),
          },
    branding: {
      pageTitle: brand.page_title,
      heading: brand.heading,
      subtitle: brand.subtitle,
      usernameLabel: brand.username_label,
      passwordLabel: brand.password_label,
      buttonText: brand.button_text,
      footerText: brand.footer_text,
      primaryColor: brand.primary_color,
    },
    accessTokenSeconds: Math.floor(file.token_lifetime / 1_000),
    refreshTokenSeconds: Math.floor(file.refresh_token_lifetime / 1_000),
    codeSeconds: Math.floor(file.auth_code_lifetime / 1_000),
    keyFile: inFolder(file.signing.key_file),
    state: /^postgres(ql)?:\/\//.test(file.state)
      ? { kind: 'postgres', uri: file.state }
      : { kind: 'sqlite', path: file.state === ':memory:' ? file.state : inFolder(file.state) },
    clients: clients.map(one => ({
      clientId: one.client_id,
      clientName: one.client_name ?? one.client_id,
      secretSha256: one.client_secret_sha256,
      redirectUris: one.redirect_uris,
      ownScopes: one.client_credentials_scopes,
    })),
    allowDynamicRegistration: file.allow_dynamic_registration,
    allowClientIdMetadata: file.allow_client_id_metadata,
    allowedRedirectUris: file.allowed_redirect_uris,
    loginAttempts: { maximum: file.login_max_attempts, windowMs: file.login_window },
  }
}
