/** Reads `oauth_server` of the bridge's file. */
import type { Checks } from '../../configuration/loader.ts'
import { isLoopbackName } from '../../mcp-protocol/origin.ts'
import { AddressError, connectionAddress } from '../../postgres/address.ts'
import type { OAuthSettings, ReadOAuth } from './settings.ts'

const isLocal = (url: string) => isLoopbackName(new URL(url).hostname)

function loginOf({ mode, builtin, federated }: ReadOAuth, { isSet: isGiven, refuse }: Checks): OAuthSettings['login'] {
  if (mode === 'builtin') return { mode, users: builtin.users }
  const { upstreamIssuer = '', clientId = '' } = federated
  const rule = 'is required with oauth_server.mode: federated'
  for (const name of ['oauth_server.federated.upstream_issuer', 'oauth_server.federated.client_id'])
    if (!isGiven(name)) refuse(name, rule)
  const scopes = [...new Set(['openid', ...federated.scopes])]
  const allowedDomains = federated.allowedDomains.map(domain => domain.toLowerCase())
  return { mode, provider: { ...federated, upstreamIssuer, clientId, scopes, allowedDomains } }
}

function checkAddresses(issuer: string, publicUrl: string, { refuse }: Checks): void {
  const name = 'oauth_server.issuer'
  if ([issuer, publicUrl].some(url => !url.startsWith('https:') && !isLocal(url)))
    refuse(name, 'must be https, except on loopback')
  if (new URL(issuer).origin !== new URL(publicUrl).origin)
    refuse(name, 'must be of the same origin as server.public_url')
}

/** Connection keywords such as `sslmode`, and the PG* environment variables, mean the same as in libpq. */
function stateOf(
  { state, statePassword }: ReadOAuth,
  inFolder: (path: string) => string,
  { refuse }: Checks,
): OAuthSettings['state'] {
  if (!/^postgres(ql)?:\/\//.test(state)) {
    if (statePassword !== undefined)
      refuse('oauth_server.state_password', 'requires a state in Postgres, such as postgresql://user@host/database')
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
  { signing: { inState, secret, keyFile } }: ReadOAuth,
  inFolder: (path: string) => string,
  { refuse }: Checks,
): OAuthSettings['signing'] {
  if (!inState) return { kind: 'file', path: inFolder(keyFile) }
  if (secret === undefined)
    refuse('oauth_server.signing.secret', 'is required with oauth_server.signing.in_state: true')
  return { kind: 'state', secret: secret ?? '' }
}

/** Returns undefined if the authorization server is off, or if its settings have errors. */
export function oauthSettings(
  read: ReadOAuth,
  publicUrl: string | undefined,
  inFolder: (path: string) => string,
  checks: Checks,
): OAuthSettings | undefined {
  if (!read.enabled) return undefined
  if (publicUrl === undefined) {
    checks.refuse('server.public_url', 'is required when oauth_server is on')
    return undefined
  }
  const issuer = (read.issuer ?? publicUrl).replace(/\/+$/, '')
  checkAddresses(issuer, publicUrl, checks)
  const names = read.builtin.users.map(one => one.username)
  for (const [index, name] of names.entries())
    if (names.indexOf(name) < index) checks.refuse(`oauth_server.builtin.users[${index}].username`, 'must be unique')
  return {
    issuer,
    resources: [`${publicUrl}/mcp`, publicUrl],
    login: loginOf(read, checks),
    branding: read.builtin.branding,
    accessTokenSeconds: Math.floor(read.tokenLifetime / 1_000),
    refreshTokenSeconds: Math.floor(read.refreshTokenLifetime / 1_000),
    codeSeconds: Math.floor(read.authCodeLifetime / 1_000),
    signing: signingOf(read, inFolder, checks),
    state: stateOf(read, inFolder, checks),
    clients: read.clients.map(one => ({
      clientId: one.clientId,
      clientName: one.clientName ?? one.clientId,
      secretSha256: one.clientSecretSha256,
      redirectUris: one.redirectUris,
      ownScopes: one.clientCredentialsScopes,
    })),
    allowDynamicRegistration: read.allowDynamicRegistration,
    allowClientIdMetadata: read.allowClientIdMetadata,
    allowedRedirectUris: read.allowedRedirectUris,
    loginAttempts: { maximum: read.loginMaxAttempts, windowMs: read.loginWindow },
  }
}
