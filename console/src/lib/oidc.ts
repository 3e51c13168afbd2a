/**
 * Login at an OpenID provider: authorization code with PKCE in another window, which sends the code to this one over a
 * BroadcastChannel. State, verifier and tokens are only in memory.
 */
import * as oauth from 'oauth4webapi'
import type { LoginSession } from '../api/accounts.ts'
import { texts } from '../texts.ts'

export type Provider = { issuer: string; client_id: string; scope: string; audience?: string }

const channelName = 'espalier-login'
const longestLoginMs = 10 * 60_000
const longestRevocationMs = 10_000

export const redirectPath = '/console/signed-in'

/** In the window of the login: sends what the provider returned. The receiver checks the state. */
export function returnFromProvider(): void {
  const channel = new BroadcastChannel(channelName)
  channel.postMessage(location.search)
  channel.close()
  history.replaceState(null, '', redirectPath)
  window.close()
}

/** Waits for the answer to one login: other windows of the console may have logins of their own. */
function answerTo(state: string, signal: AbortSignal): Promise<URLSearchParams> {
  return new Promise((resolve, reject) => {
    const channel = new BroadcastChannel(channelName)
    const timer = setTimeout(() => end(() => reject(new Error(texts.login.oidcClosed))), longestLoginMs)
    const end = (then: () => void) => {
      clearTimeout(timer)
      channel.close()
      then()
    }
    signal.addEventListener('abort', () => end(() => reject(signal.reason)))
    channel.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (typeof data !== 'string' || data.length > 10_000) return
      const parameters = new URLSearchParams(data)
      if (parameters.get('state') === state) end(() => resolve(parameters))
    }
  })
}

type Tokens = { token: string; session: LoginSession }

const expiryOf = ({ expires_in: seconds }: oauth.TokenEndpointResponse): number | undefined =>
  seconds === undefined ? undefined : Date.now() + seconds * 1000

/** @throws with what failed, in words of the provider or of the library */
export async function logIn(provider: Provider, popup: Window, signal: AbortSignal): Promise<Tokens> {
  const issuer = new URL(provider.issuer)
  const options = { signal, [oauth.allowInsecureRequests]: issuer.protocol === 'http:' }
  const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, options))
  const client: oauth.Client = { client_id: provider.client_id }
  const authentication = oauth.None()
  const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()]
  const redirectUri = new URL(redirectPath, location.origin).href
  if (server.authorization_endpoint === undefined) throw new Error('authorization_endpoint')
  const address = new URL(server.authorization_endpoint)
  const parameters = {
    client_id: provider.client_id,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: provider.scope,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(provider.audience === undefined ? {} : { audience: provider.audience }),
  }
  for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value)
  const answered = answerTo(state, signal)
  popup.location.href = address.href
  const validated = oauth.validateAuthResponse(server, client, await answered, state)
  const response = await oauth.authorizationCodeGrantRequest(
    server,
    client,
    authentication,
    validated,
    redirectUri,
    verifier,
    options,
  )
  const granted = await oauth.processAuthorizationCodeResponse(server, client, response)
  return { token: granted.access_token, session: sessionOf(server, client, granted) }
}

/** Renews the token, and revokes what renews it (RFC 7009), as far as the provider can. */
function sessionOf(
  server: oauth.AuthorizationServer,
  client: oauth.Client,
  granted: oauth.TokenEndpointResponse,
): LoginSession {
  let refreshToken = granted.refresh_token
  const expiresAt = expiryOf(granted)
  if (refreshToken === undefined) return { expiresAt, renew: undefined, revoke: undefined }
  const authentication = oauth.None()
  const options = { [oauth.allowInsecureRequests]: server.issuer.startsWith('http:') }
  let renewing: Promise<unknown> = Promise.resolve()
  const renew = async () => {
    const answer = await oauth.refreshTokenGrantRequest(server, client, authentication, refreshToken ?? '', options)
    const renewed = await oauth.processRefreshTokenResponse(server, client, answer)
    refreshToken = renewed.refresh_token ?? refreshToken
    return { token: renewed.access_token, expiresAt: expiryOf(renewed) }
  }
  const revoke = async () => {
    // A renewal that runs may replace the token.
    await renewing.catch(() => {})
    const signal = AbortSignal.timeout(longestRevocationMs)
    const answer = await oauth.revocationRequest(server, client, authentication, refreshToken ?? '', {
      ...options,
      signal,
    })
    await oauth.processRevocationResponse(answer)
  }
  return {
    expiresAt,
    renew: () => {
      const renewal = renew()
      renewing = renewal
      return renewal
    },
    revoke: server.revocation_endpoint === undefined ? undefined : revoke,
  }
}
