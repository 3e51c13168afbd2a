/**
 * Login at an OIDC provider with `openid-client`: code flow with PKCE and `nonce`. The bridge trusts only the signed
 * claims of the ID token, and the userinfo of the same subject. Each response is limited in time and size.
 */
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientError,
  ClientSecretPost,
  type Configuration,
  type CustomFetch,
  calculatePKCECodeChallenge,
  customFetch,
  discovery,
  enableNonRepudiationChecks,
  fetchUserInfo,
  None,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from 'openid-client'
import { z } from 'zod'
import type { Identity } from './builtin.ts'
import { OAuthError } from './errors.ts'
import type { FederatedSettings } from './settings.ts'

const timeLimitSeconds = 10
/** How long the provider's metadata is cached. */
const discoveryMs = 3_600_000
const largestAnswer = 1_048_576

const userinfoSchema = z.object({
  sub: z.string().min(1).max(255),
  email: z.string().max(320).optional(),
  email_verified: z.boolean().optional(),
})
const connectionErrorSchema = z.object({ code: z.string().regex(/^[A-Z][A-Z0-9_]*$/) })
const claimsSchema = userinfoSchema.extend({ azp: z.string().optional() })

type ProviderRequest = {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** Limits the size of a response. */
const boundedFetch: CustomFetch = async (url, { body, ...options }) => {
  const response = await fetch(url, { ...options, ...(body != null && { body }) })
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of response.body ?? []) {
    length += piece.length
    // The error cancels the rest of the response.
    if (length > largestAnswer) throw new ClientError(`the response has more than ${largestAnswer} bytes`)
    pieces.push(piece)
  }
  const { status, headers } = response
  return new Response(status === 204 ? null : Buffer.concat(pieces), { status, headers })
}

/** Wraps `fetch`. Reports the code of a failed connection, which `fetch` hides in the error's cause. */
const providerFetch: CustomFetch = async (url, options) => {
  try {
    return await boundedFetch(url, options)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    const code = connectionErrorSchema.safeParse(error.cause).data?.code
    const failed = new ClientError('the connection failed', { cause: error })
    throw code === undefined ? failed : Object.assign(failed, { code })
  }
}

/**
 * Sends the token endpoint exactly the redirect URI of the login. `openid-client` normalizes the URI, but providers
 * compare the text.
 */
const withRedirectUri =
  (authenticate: ClientAuth, redirectUri: string): ClientAuth =>
  (server, client, body, headers) => {
    body.set('redirect_uri', redirectUri)
    return authenticate(server, client, body, headers)
  }

/** Error codes for invalid responses. */
const invalid: ReadonlySet<string | undefined> = new Set([
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
  'OAUTH_KEY_SELECTION_FAILED',
])

/** @throws OAuthError, so that the client learns only that the login failed */
async function answered<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    const error =
      cause instanceof ClientError && invalid.has(cause.code)
        ? new OAuthError('access_denied', 'the identity provider sent an answer that is not valid')
        : new OAuthError('server_error', 'the identity provider did not answer correctly')
    error.cause = cause
    throw error
  }
}

/** Error codes of a token endpoint (RFC 6749, 5.2). The log contains no other text of a response. */
const tokenErrors: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
])

type LoginFailure = { readonly problem: string; readonly code?: string | undefined; readonly reason?: string }

/**
 * Returns the log fields of a failed login, without response text, token, code or secret. Only messages of the
 * library's own errors are safe. For example, an error of `Headers` quotes an access token that is not a valid header.
 */
export function loginFailure({ message: problem, code, cause }: OAuthError): LoginFailure {
  if (cause instanceof ResponseBodyError)
    return { problem, code: tokenErrors.has(cause.error) ? cause.error : cause.code, reason: cause.message }
  if (cause instanceof ClientError || cause instanceof WWWAuthenticateChallengeError)
    return { problem, code: cause.code, reason: cause.message }
  return cause instanceof Error ? { problem, reason: cause.name } : { problem, code }
}

function read<S extends z.ZodType>(schema: S, value: unknown): z.infer<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new OAuthError('server_error', 'the identity provider answers with an error unknown to OpenID Connect')
}

export class Provider {
  readonly #settings: FederatedSettings
  readonly #redirectUri: string
  #discovered: { readonly configuration: Configuration; readonly readAt: number } | undefined

  constructor(settings: FederatedSettings, redirectUri: string) {
    this.#settings = settings
    this.#redirectUri = redirectUri
  }

  get host(): string {
    return new URL(this.#settings.upstreamIssuer).host
  }

  /** Reads the provider's metadata and keys. @throws OAuthError */
  async #discover(): Promise<Configuration> {
    if (this.#discovered !== undefined && Date.now() - this.#discovered.readAt < discoveryMs)
      return this.#discovered.configuration
    const { upstreamIssuer, clientId, clientSecret } = this.#settings
    const server = new URL(upstreamIssuer)
    const authenticate = clientSecret === undefined ? None() : ClientSecretPost(clientSecret)
    const configuration = await answered(
      discovery(server, clientId, undefined, withRedirectUri(authenticate, this.#redirectUri), {
        timeout: timeLimitSeconds,
        [customFetch]: providerFetch,
        // Verifies ID token signatures, although ID tokens arrive over TLS.
        execute: [enableNonRepudiationChecks, ...(server.protocol === 'http:' ? [allowInsecureRequests] : [])],
      }),
    )
    // For Entra ID, the library accepts another issuer.
    if (configuration.serverMetadata().issuer !== upstreamIssuer)
      throw new OAuthError('server_error', "the identity provider's metadata name another issuer")
    this.#discovered = { configuration, readAt: Date.now() }
    return configuration
  }

  /** @throws OAuthError */
  async loginUrl({ state, nonce, verifier }: ProviderRequest): Promise<string> {
    const configuration = await this.#discover()
    const parameters = {
      redirect_uri: this.#redirectUri,
      scope: this.#settings.scopes.join(' '),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    }
    return answered(Promise.try(() => buildAuthorizationUrl(configuration, parameters).href))
  }

  /** @param issuer the issuer in the provider's redirect, if present @throws OAuthError */
  async identify(code: string, issuer: string | undefined, sent: Omit<ProviderRequest, 'state'>): Promise<Identity> {
    const configuration = await this.#discover()
    const back = new URL(this.#redirectUri)
    back.searchParams.set('code', code)
    if (issuer !== undefined) back.searchParams.set('iss', issuer)
    const checks = { expectedNonce: sent.nonce, pkceCodeVerifier: sent.verifier }
    const tokens = await answered(authorizationCodeGrant(configuration, back, checks))
    const claims = read(claimsSchema, tokens.claims())
    if (claims.azp !== undefined && claims.azp !== this.#settings.clientId)
      throw new OAuthError('access_denied', 'the identity provider sent the token of another login')
    const email = await this.#verifiedEmail(claims, configuration, tokens.access_token)
    this.#checkDomain(email)
    return { subject: claims.sub, username: email ?? claims.sub, scopes: this.#settings.defaultScopes }
  }

  async #verifiedEmail(
    claims: z.infer<typeof userinfoSchema>,
    configuration: Configuration,
    accessToken: string,
  ): Promise<string | undefined> {
    const verified = (one: z.infer<typeof userinfoSchema>) => (one.email_verified === true ? one.email : undefined)
    if (claims.email !== undefined) return verified(claims)
    const { userinfo_endpoint } = configuration.serverMetadata()
    if (userinfo_endpoint === undefined || !this.#settings.scopes.includes('email')) return undefined
    return verified(read(userinfoSchema, await answered(fetchUserInfo(configuration, accessToken, claims.sub))))
  }

  #checkDomain(email: string | undefined): void {
    const { allowedDomains } = this.#settings
    if (allowedDomains.length === 0) return
    const domain = email?.slice(email.lastIndexOf('@') + 1).toLowerCase()
    if (domain === undefined || !allowedDomains.includes(domain))
      throw new OAuthError('access_denied', 'this account does not belong to an allowed domain')
  }
}
