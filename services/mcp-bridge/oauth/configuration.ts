/** `oauth_server` of the bridge's file. */
import type { Checks } from '../../configuration/loader.ts'
import { isLoopbackName } from '../../mcp-protocol/origin.ts'
import { AddressError, connectionAddress } from '../../postgres/address.ts'
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

/** The keyword `sslmode` and the rest mean what they mean to libpq, and its variables of the environment complete them. */
function stateOf(
  { state, statePassword }: GivenOAuth,
  inFolder: (path: string) => string,
  { refuse }: Checks,
): OAuthSettings['state'] {
  if (!/^postgres(ql)?:\/\//.test(state)) {
    if (statePassword !== undefined)
      refuse('oauth_server.state_password', 'is only for a state in Postgres, such as postgresql://user@host/database')
    return { kind: 'sqlite', path: state === ':memory:' ? state : inFolder(state) }
  }
  try {
    const address = connectionAddress(state)
    return { kind: 'postgres', address: { ...address, password: statePassword ?? address.password } }
  } catch (error) {
    if (!(error instanceof AddressError)) throw error
    refuse('oauth_server.state', error.message)
    return { kind: 'sqlite', path: ':memory:' }
  }
}

function signingOf(
  { signing: { inState, secret, keyFile } }: GivenOAuth,
  inFolder: (path: string) => string,
  { refuse }: Checks,
): OAuthSettings['signing'] {
  if (!inState) return { kind: 'file', path: inFolder(keyFile) }
  if (secret === undefined)
    refuse('oauth_server.signing.secret', 'must be given where oauth_server.signing.in_state is true')
  return { kind: 'state', secret: secret ?? '' }
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
    signing: signingOf(given, inFolder, checks),
    state: stateOf(given, inFolder, checks),
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
