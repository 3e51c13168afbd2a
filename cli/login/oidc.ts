/**
 * Logs in at an API's OpenID provider: in a browser with PKCE (RFC 8252), or with a code on another device (RFC 8628).
 * Also renews and revokes tokens of an earlier login.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as openid from 'openid-client'
import { escapeControls } from '../../values/escape.ts'
import type { OidcLogin } from '../api/shapes.ts'
import { CommandFailure, NotAuthorised, TimedOut } from '../errors.ts'
import type { Io } from '../io.ts'
import { openInBrowser } from '../open.ts'
import type { Profile } from '../profiles.ts'

type Credentials = Pick<Profile, 'token' | 'oidc'>
type LoginContext = { io: Io; note: (line: string) => void }

const loginTimeoutMs = 300_000
const requestTimeoutSeconds = 10

const isLoopback = (url: URL): boolean => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname)

const noLogin = () => new TimedOut('no login within 5 minutes')

/** @throws CommandFailure */
async function answered<T>(what: string, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof CommandFailure) throw error
    const code = error instanceof openid.ResponseBodyError ? `, ${error.error}` : ''
    // Never print the response's text, which can contain a token. The error's message never contains a token.
    const why = error instanceof Error ? error.message : String(error)
    throw new NotAuthorised(escapeControls(`${what}: ${why}${code}`))
  }
}

async function discover({ issuer, client_id: clientId }: Pick<OidcLogin, 'issuer' | 'client_id'>) {
  const url = URL.parse(issuer)
  if (url === null || (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url))))
    throw new NotAuthorised('the provider of this API must have an https URL, or an http URL on this machine')
  return await answered(
    'the login provider does not answer correctly',
    openid.discovery(url, clientId, undefined, openid.None(), {
      timeout: requestTimeoutSeconds,
      execute: url.protocol === 'http:' ? [openid.allowInsecureRequests] : [],
    }),
  )
}

const isJwt = (text: string | undefined): text is string => text !== undefined && text.split('.').length === 3

/** Returns the JWT for the API: the access token, or the ID token if the access token is not a JWT. */
function credentialsOf(
  tokens: openid.TokenEndpointResponse & openid.TokenEndpointResponseHelpers,
  { issuer, clientId }: { issuer: string; clientId: string },
  earlier?: string,
): Credentials {
  const token = isJwt(tokens.access_token) ? tokens.access_token : tokens.id_token
  if (token === undefined) throw new NotAuthorised('the login provider returned no token that an API can verify')
  const seconds = tokens.expiresIn()
  const refreshToken = tokens.refresh_token ?? earlier
  return {
    token,
    oidc: {
      issuer,
      clientId,
      ...(seconds === undefined ? {} : { expiresAt: Date.now() + seconds * 1000 }),
      ...(refreshToken === undefined ? {} : { refreshToken }),
    },
  }
}

const page = (text: string) => `<!doctype html><meta charset="utf-8"><title>Espalier</title><p>${text}</p>`

/** Returns the URL of the first request for `/callback`. Other requests get 404. */
function callbackOf(server: Server, origin: string): Promise<URL> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(noLogin()), loginTimeoutMs)
    server.on('request', (request, response) => {
      const url = URL.parse(request.url ?? '/', origin)
      if (request.method !== 'GET' || url?.pathname !== '/callback') return void response.writeHead(404).end()
      response
        .writeHead(200, {
          'content-type': 'text/html; charset=utf-8',
          'referrer-policy': 'no-referrer',
          connection: 'close',
        })
        .end(page('You can close this page, and return to the terminal.'))
      clearTimeout(timer)
      resolve(url)
    })
  })
}

const parametersOf = ({ scope, audience }: OidcLogin): Record<string, string> => ({
  scope,
  ...(audience === undefined ? {} : { audience }),
})

export async function logInByBrowser(login: OidcLogin, { io, note }: LoginContext): Promise<Credentials> {
  const configuration = await discover(login)
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const [verifier, state] = [openid.randomPKCECodeVerifier(), openid.randomState()]
    const url = openid.buildAuthorizationUrl(configuration, {
      ...parametersOf(login),
      redirect_uri: `${origin}/callback`,
      state,
      code_challenge: await openid.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    })
    const callback = callbackOf(server, origin)
    note(`If no browser opens, log in with this page:\n${escapeControls(url.href)}`)
    openInBrowser(io.environment, url.href)
    const checks = { pkceCodeVerifier: verifier, expectedState: state }
    const tokens = await answered(
      'the login failed',
      openid.authorizationCodeGrant(configuration, await callback, checks),
    )
    return credentialsOf(tokens, { issuer: login.issuer, clientId: login.client_id })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

export async function logInByDevice(login: OidcLogin, { note }: LoginContext): Promise<Credentials> {
  const configuration = await discover(login)
  const device = await answered(
    'the login provider does not support login with a code',
    openid.initiateDeviceAuthorization(configuration, parametersOf(login)),
  )
  note(escapeControls(`Open ${device.verification_uri} and enter the code ${device.user_code}`))
  const signal = AbortSignal.timeout(loginTimeoutMs)
  const polled = openid.pollDeviceAuthorizationGrant(configuration, device, undefined, { signal })
  const tokens = await answered(
    'the login failed',
    polled.catch((error: unknown) => {
      throw signal.aborted ? noLogin() : error
    }),
  )
  return credentialsOf(tokens, { issuer: login.issuer, clientId: login.client_id })
}

/** Renews the tokens of an earlier login. @throws CommandFailure if the user must log in again */
export async function refresh({ issuer, clientId, refreshToken }: NonNullable<Profile['oidc']>): Promise<Credentials> {
  if (refreshToken === undefined) throw new NotAuthorised('the token of this profile has expired')
  const configuration = await discover({ issuer, client_id: clientId })
  const tokens = await answered(
    'the token of this profile has expired, and the provider returned no new token',
    openid.refreshTokenGrant(configuration, refreshToken),
  )
  return credentialsOf(tokens, { issuer, clientId }, refreshToken)
}

/** Revokes the refresh token (RFC 7009), if the provider supports this. @throws CommandFailure */
export async function revoke({ issuer, clientId, refreshToken }: NonNullable<Profile['oidc']>): Promise<void> {
  if (refreshToken === undefined) return
  const configuration = await discover({ issuer, client_id: clientId })
  if (configuration.serverMetadata().revocation_endpoint === undefined) return
  await answered(
    'the provider did not revoke the refresh token',
    openid.tokenRevocation(configuration, refreshToken, { token_type_hint: 'refresh_token' }),
  )
}
