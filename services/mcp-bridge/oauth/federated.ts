/** An OIDC provider that says who somebody is: code flow with PKCE, `state` and `nonce`. Of what it says, only the ID token's signed claims and what its userinfo adds about the same subject count. */
import { createHash } from 'node:crypto'
import { createRemoteJWKSet, customFetch, jwtVerify } from 'jose'
import { z } from 'zod'
import type { Identity } from './builtin.ts'
import { OAuthError } from './errors.ts'
import type { FederatedSettings } from './settings.ts'

const timeLimitMs = 10_000
const discoveryMs = 3_600_000
const largestAnswer = 1_048_576

const discoverySchema = z.object({
  issuer: z.string(),
  authorization_endpoint: z.url({ protocol: /^https?$/ }),
  token_endpoint: z.url({ protocol: /^https?$/ }),
  jwks_uri: z.url({ protocol: /^https?$/ }),
  userinfo_endpoint: z.url({ protocol: /^https?$/ }).optional(),
})
const tokenSchema = z.object({ id_token: z.string(), access_token: z.string().optional() })
const claimsSchema = z.object({
  sub: z.string().min(1).max(255),
  nonce: z.string(),
  azp: z.string().optional(),
  email: z.string().max(320).optional(),
  email_verified: z.boolean().optional(),
})
const userinfoSchema = claimsSchema.omit({ nonce: true, azp: true })

type Discovery = z.infer<typeof discoverySchema> & {
  readonly keys: ReturnType<typeof createRemoteJWKSet>
  readonly readAt: number
}

type ProviderRequest = {
  readonly redirectUri: string
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** Reads no more than an answer may have. */
async function boundedFetch(url: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(url, { ...init, redirect: 'error', signal: AbortSignal.timeout(timeLimitMs) })
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of response.body ?? []) {
    length += piece.length
    // Leaving the loop cancels what still comes.
    if (length > largestAnswer) throw new Error(`more than ${largestAnswer} bytes`)
    pieces.push(piece)
  }
  const { status, headers } = response
  return new Response(status === 204 ? null : Buffer.concat(pieces), { status, headers })
}

/** @throws OAuthError: the client is told that it did not work, and no more */
async function fetchJson(url: string, init: RequestInit = {}): Promise<unknown> {
  try {
    const response = await boundedFetch(url, init)
    if (!response.ok) throw new Error(`status ${response.status}`)
    return JSON.parse(await response.text())
  } catch (cause) {
    const error = new OAuthError('server_error', 'the identity provider does not answer as it should')
    error.cause = cause
    throw error
  }
}

function read<S extends z.ZodType>(schema: S, value: unknown): z.infer<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new OAuthError('server_error', 'the identity provider answers what OpenID Connect does not know')
}

export class Provider {
  readonly #settings: FederatedSettings
  #discovery: Discovery | undefined

  constructor(settings: FederatedSettings) {
    this.#settings = settings
  }

  get host(): string {
    return new URL(this.#settings.upstreamIssuer).host
  }

  async #discover(): Promise<Discovery> {
    if (this.#discovery !== undefined && Date.now() - this.#discovery.readAt < discoveryMs) return this.#discovery
    const { upstreamIssuer } = this.#settings
    const at = `${upstreamIssuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const found = read(discoverySchema, await fetchJson(at))
    if (found.issuer !== upstreamIssuer)
      throw new OAuthError('server_error', 'the identity provider names another issuer')
    const keys = createRemoteJWKSet(new URL(found.jwks_uri), {
      timeoutDuration: timeLimitMs,
      [customFetch]: boundedFetch,
    })
    this.#discovery = { ...found, keys, readAt: Date.now() }
    return this.#discovery
  }

  /** @throws OAuthError */
  async loginUrl({ redirectUri, state, nonce, verifier }: ProviderRequest): Promise<string> {
    const { clientId, scopes } = this.#settings
    const url = new URL((await this.#discover()).authorization_endpoint)
    const parameters = {
      response_type: 'code',
      client_id: clientId,
      redirect_uri: redirectUri,
      scope: scopes.join(' '),
      state,
      nonce,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    return url.href
  }

  /** @param issuer as the provider's answer names it, where it does @throws OAuthError */
  async identify(code: string, issuer: string | undefined, asked: Omit<ProviderRequest, 'state'>): Promise<Identity> {
    const { upstreamIssuer, clientId, clientSecret, defaultScopes } = this.#settings
    if (issuer !== undefined && issuer !== upstreamIssuer)
      throw new OAuthError('access_denied', 'the answer is of another identity provider')
    const discovery = await this.#discover()
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: asked.redirectUri,
      client_id: clientId,
      code_verifier: asked.verifier,
      ...(clientSecret !== undefined && { client_secret: clientSecret }),
    })
    const tokens = read(tokenSchema, await fetchJson(discovery.token_endpoint, { method: 'POST', body: form }))
    const { payload } = await jwtVerify(tokens.id_token, discovery.keys, {
      issuer: upstreamIssuer,
      audience: clientId,
      clockTolerance: 30,
      requiredClaims: ['exp', 'iat', 'sub'],
    }).catch(() => {
      throw new OAuthError('access_denied', 'the identity provider sent a token that is not valid')
    })
    const claims = read(claimsSchema, payload)
    if (claims.nonce !== asked.nonce || (claims.azp !== undefined && claims.azp !== clientId))
      throw new OAuthError('access_denied', 'the identity provider sent the token of another login')
    const email = await this.#verifiedEmail(claims, discovery, tokens.access_token)
    this.#checkDomain(email)
    return { subject: claims.sub, username: email ?? claims.sub, scopes: defaultScopes }
  }

  async #verifiedEmail(
    claims: z.infer<typeof claimsSchema>,
    { userinfo_endpoint }: Discovery,
    accessToken: string | undefined,
  ): Promise<string | undefined> {
    const verified = (one: z.infer<typeof userinfoSchema>) => (one.email_verified === true ? one.email : undefined)
    if (claims.email !== undefined) return verified(claims)
    if (userinfo_endpoint === undefined || accessToken === undefined || !this.#settings.scopes.includes('email'))
      return undefined
    const headers = { Authorization: `Bearer ${accessToken}` }
    const userinfo = read(userinfoSchema, await fetchJson(userinfo_endpoint, { headers }))
    return userinfo.sub === claims.sub ? verified(userinfo) : undefined
  }

  #checkDomain(email: string | undefined): void {
    const { allowedDomains } = this.#settings
    if (allowedDomains.length === 0) return
    const domain = email?.slice(email.lastIndexOf('@') + 1).toLowerCase()
    if (domain === undefined || !allowedDomains.includes(domain))
      throw new OAuthError('access_denied', 'this account is not of a domain that may sign in here')
  }
}
