/**
 * Logs in at an OpenID provider with an authorization code and PKCE. The login window sends the code over a
 * BroadcastChannel to the window that started the login. State, verifier and tokens are only in memory.
 */
import * as oauth from 'oauth4webapi'
import type { LoginSession } from '../api/accounts.ts'
import { texts } from '../texts.ts'

export type Provider = { issuer: string; client_id: string; scope: string; audience?: string }

const channelName = 'espalier-login'
const longestLoginMs = 10 * 60_000
const longestRevocationMs = 10_000

export const redirectPath = '/console/signed-in'

/** Runs in the login window. Sends the provider's response to the other windows, which check its state. */
export function returnFromProvider(): void {
  const channel = new BroadcastChannel(channelName)
  channel.postMessage(location.search)
  channel.close()
  history.replaceState(null, '', redirectPath)
  window.close()
}

/** Waits for the provider's response to this login. Ignores the response to a login of another window. */
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

/**
 * Logs in, and returns the token.
 * @throws Error with the message of the provider or of the library
 */
export async function logIn(provider: Provider, popup: Window, signal: AbortSignal): Promise<Tokens> {
  const issuer = new URL(provider.issuer)
  const options = { signal, [oauth.allowInsecureRequests]: issuer.protocol === 'http:' }
  const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, options))
  const client: oauth.Client = { client_id: provider.client_id }
  const authentication = oauth.None()
  const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()]
  const redirectUri = new URL(redirectPath, location.origin).href
  if (server.authorization_endpoint === undefined)
    throw new Error("the provider's metadata has no authorization_endpoint")
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
  const callback = answerTo(state, signal)
  popup.location.href = address.href
  const validated = oauth.validateAuthResponse(server, client, await callback, state)
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

/**
 * Returns the session of a login. `renew` renews the token, and `revoke` revokes the refresh token (RFC 7009). Both are
 * undefined without a refresh token. `revoke` is also undefined if the provider does not support it.
 */
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
    // A running renewal may replace the refresh token.
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
