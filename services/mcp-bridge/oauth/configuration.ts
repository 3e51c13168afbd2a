/** `oauth_server` of the bridge's file. */
import type { Checks } from '../../configuration/loader.ts'
import { isLoopbackName } from '../../mcp-protocol/origin.ts'
import type { GivenOAuth, OAuthSettings } from './settings.ts'

const isLocal = (url: string) => isLoopbackName(new URL(url).hostname)

function loginOf({ mode, builtin, federated }: GivenOAuth, { isGiven, refuse }: Checks): OAuthSettings['login'] {
  if (mode === 'builtin') return { mode, users: builtin.users }
  const { upstreamIssuer = '', clientId = '' } = federated
  const rule = 'must be given where oauth_server.mode is federated'
  for (const name of ['oauth_server.federated.upstream_issuer', 'oauth_server.federated.client_id'])
    if (!isGiven(name)) refuse(name, rule)
  const scopes = [...new Set(['openid', ...federated.scopes])]
  const allowedDomains = federated.allowedDomains.map(domain => domain.toLowerCase())
  return { mode, provider: { ...federated, upstreamIssuer, clientId, scopes, allowedDomains } }
}

function checkAddresses(issuer: string, publicUrl: string, { refuse }: Checks): void {
  const name = 'oauth_server.issuer'
  if ([issuer, publicUrl].some(url => !url.startsWith('https:') && !isLocal(url)))
    refuse(name, 'must be https, but on loopback')
  if (new URL(issuer).origin !== new URL(publicUrl).origin)
    refuse(name, 'must be of the same origin as server.public_url')
}

/** undefined: the authorization server is off, or cannot be used. */
export function oauthSettings(
  given: GivenOAuth,
  publicUrl: string | undefined,
  inFolder: (path: string) => string,
  checks: Checks,
): OAuthSettings | undefined {
  if (!given.enabled) return undefined
  if (publicUrl === undefined) {
    checks.refuse('server.public_url', 'must be given where oauth_server is on')
    return undefined
  }
  const issuer = (given.issuer ?? publicUrl).replace(/\/+$/, '')
  checkAddresses(issuer, publicUrl, checks)
  const names = given.builtin.users.map(one => one.username)
  for (const [index, name] of names.entries())
    if (names.indexOf(name) < index)
      checks.refuse(`oauth_server.builtin.users[${index}].username`, 'must be another name')
  return {
    issuer,
    resources: [`${publicUrl}/mcp`, publicUrl],
    login: loginOf(given, checks),
    branding: given.builtin.branding,
    accessTokenSeconds: Math.floor(given.tokenLifetime / 1_000),
    refreshTokenSeconds: Math.floor(given.refreshTokenLifetime / 1_000),
    codeSeconds: Math.floor(given.authCodeLifetime / 1_000),
    keyFile: inFolder(given.signing.keyFile),
    state: /^postgres(ql)?:\/\//.test(given.state)
      ? { kind: 'postgres', uri: given.state }
      : { kind: 'sqlite', path: given.state === ':memory:' ? given.state : inFolder(given.state) },
    clients: given.clients.map(one => ({
      clientId: one.clientId,
      clientName: one.clientName ?? one.clientId,
      secretSha256: one.clientSecretSha256,
      redirectUris: one.redirectUris,
      ownScopes: one.clientCredentialsScopes,
    })),
    allowDynamicRegistration: given.allowDynamicRegistration,
    allowClientIdMetadata: given.allowClientIdMetadata,
    allowedRedirectUris: given.allowedRedirectUris,
    loginAttempts: { maximum: given.loginMaxAttempts, windowMs: given.loginWindow },
  }
}
