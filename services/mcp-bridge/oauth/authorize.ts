/**
 * The authorization endpoint. It checks a client's request, shows it to the user, and redirects back with a code. It
 * redirects only to addresses that the client has registered. A page is valid once, in the browser that requested it.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Logger } from 'pino'
import { networkOf } from '../../http/address.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import { scopes as allScopes, type Scope } from '../../mcp-protocol/scopes.ts'
import type { BuiltinUsers, Identity } from './builtin.ts'
import type { Client, Clients } from './clients.ts'
import { OAuthError, PageError } from './errors.ts'
import { loginFailure, type Provider } from './federated.ts'
import { cookieOf, type Fields, readFields, readForm, redirectTo, required } from './form.ts'
import { formTarget, type Pages } from './pages.ts'
import { type AuthorizationRequest, hashOf, type RecordOf, type Store, secretText } from './records.ts'
import { matchesRedirectUri } from './redirect.ts'

const transactionSeconds = 600
const consentSeconds = 7_776_000
const longestState = 2_000
/** How long the server detects the reuse of a code. */
const codeMemorySeconds = 3_600

export type Login =
  | { readonly kind: 'builtin'; readonly users: BuiltinUsers }
  | { readonly kind: 'federated'; readonly provider: Provider }

type AuthorizeParts = {
  readonly issuer: string
  readonly resources: readonly string[]
  readonly codeSeconds: number
  readonly clients: Clients
  readonly store: Store
  readonly pages: Pages
  readonly login: Login
  readonly logger: Logger
}

/** The resource without the trailing slash that some clients send. */
export function resourceOf(requested: string | undefined, resources: readonly string[]): string {
  const [usual = ''] = resources
  const resource = requested?.replace(/\/$/, '') ?? usual
  if (!resources.includes(resource)) throw new OAuthError('invalid_target', 'resource: unknown resource')
  return resource
}

/** Returns the known scopes among the requested scopes, or `mcp:read` if the request has none. @throws OAuthError */
export function scopesOf(requested: string | undefined): readonly Scope[] {
  if (requested === undefined) return ['mcp:read']
  const names = requested.split(' ')
  const known = allScopes.filter(scope => names.includes(scope))
  if (known.length === 0)
    throw new OAuthError('invalid_scope', `scope: unknown; known scopes: ${allScopes.join(' and ')}`)
  return known
}

function sameText(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)]
  return first.length === second.length && timingSafeEqual(first, second)
}

export class AuthorizationEndpoint {
  readonly #parts: AuthorizeParts
  readonly #cookieName: string
  readonly #path: string

  constructor(parts: AuthorizeParts) {
    this.#parts = parts
    const isSecure = parts.issuer.startsWith('https:')
    // With this prefix, browsers ensure that no other host can set the cookie.
    this.#cookieName = isSecure ? '__Host-espalier_oauth' : 'espalier_oauth'
    this.#path = `${new URL(parts.issuer).pathname.replace(/\/$/, '')}/oauth/authorize`
  }

  #cookie(value: string): readonly [string, string] {
    const secure = this.#cookieName.startsWith('__Host-') ? '; Secure' : ''
    const rest = `Path=/; HttpOnly; SameSite=Lax; Max-Age=${consentSeconds}${secure}`
    return ['Set-Cookie', `${this.#cookieName}=${value}; ${rest}`]
  }

  /** GET /oauth/authorize. @throws PageError, OAuthError */
  async start(head: RequestHead): Promise<HttpResponse> {
    const fields = readFields(head.query)
    const client = await this.#parts.clients.find(required(fields, 'client_id'), head.address)
    const redirectUri = required(fields, 'redirect_uri')
    if (!matchesRedirectUri(redirectUri, client.redirectUris))
      throw new PageError(400, 'This client has not registered the redirect_uri. You are not sent there.')
    const state = fields.get('state')
    let request: AuthorizationRequest
    try {
      request = this.#requestOf(fields, client, redirectUri)
    } catch (error) {
      if (error instanceof OAuthError) return this.#refuse(redirectUri, state, error)
      throw error
    }
    return this.#show(head, client, request)
  }

  async #show(head: RequestHead, client: Client, request: AuthorizationRequest): Promise<HttpResponse> {
    const { login } = this.#parts
    const browser = cookieOf(head, this.#cookieName) ?? secretText()
    if (login.kind === 'federated' && (client.isKnown || (await this.#hasConsented(browser, request))))
      return this.#toProvider(login.provider, request, browser, head)
    const csrfToken = secretText()
    await this.#begin(head, csrfToken, { request, browserHash: hashOf(browser) })
    const page = this.#page(request, csrfToken, '', undefined, 200)
    return { ...page, headers: [...page.headers, this.#cookie(browser)] }
  }

  #page(
    request: AuthorizationRequest,
    csrfToken: string,
    username: string,
    problem: string | undefined,
    status: number,
  ): HttpResponse {
    const { login, pages } = this.#parts
    const target = formTarget(request.redirectUri)
    const page = { request, csrfToken, action: this.#path, problem }
    if (login.kind === 'builtin') {
      return pages.consent({ ...page, login: { kind: 'password', username }, formTargets: [target] }, status)
    }
    const { host } = login.provider
    // The provider may redirect to further hosts.
    return pages.consent(
      { ...page, login: { kind: 'provider', host }, formTargets: ['https:', target, `http://${host}`] },
      status,
    )
  }

  /** @throws OAuthError */
  #requestOf(fields: Fields, client: Client, redirectUri: string): AuthorizationRequest {
    const { resources } = this.#parts
    const state = fields.get('state')
    if (state !== undefined && state.length > longestState)
      throw new OAuthError('invalid_request', `state must be at most ${longestState} characters`)
    if (required(fields, 'response_type') !== 'code')
      throw new OAuthError('unsupported_response_type', 'response_type must be code')
    const codeChallenge = fields.get('code_challenge') ?? ''
    if (!/^[\w-]{43}$/.test(codeChallenge))
      throw new OAuthError('invalid_request', 'code_challenge must be the SHA-256 of the verifier in base64url')
    if (fields.get('code_challenge_method') !== 'S256')
      throw new OAuthError('invalid_request', 'code_challenge_method must be S256')
    return {
      clientId: client.clientId,
      clientName: client.clientName,
      redirectUri,
      ...(state !== undefined && { state }),
      codeChallenge,
      scopes: [...scopesOf(fields.get('scope'))],
      resource: resourceOf(fields.get('resource'), resources),
    }
  }

  #back(redirectUri: string, state: string | undefined, parameters: Readonly<Record<string, string>>): HttpResponse {
    const url = new URL(redirectUri)
    for (const [name, value] of Object.entries(parameters)) url.searchParams.append(name, value)
    if (state !== undefined) url.searchParams.append('state', state)
    url.searchParams.append('iss', this.#parts.issuer)
    return redirectTo(url.href)
  }

  #refuse(redirectUri: string, state: string | undefined, error: OAuthError): HttpResponse {
    return this.#back(redirectUri, state, { error: error.code, error_description: error.message })
  }

  /** POST /oauth/authorize. @throws PageError, OAuthError */
  async submit(head: RequestHead, body: IncomingBody): Promise<HttpResponse> {
    const fields = await readForm(head, body)
    const { store, login } = this.#parts
    const csrfToken = fields.get('csrf_token') ?? ''
    const browser = cookieOf(head, this.#cookieName) ?? ''
    const key = hashOf(csrfToken)
    const shown = await store.get('transaction', key)
    if (shown === undefined || shown.verifier !== undefined || !sameText(shown.browserHash, hashOf(browser)))
      throw new PageError(
        403,
        'This page has expired, or was shown to another browser. Go back to the application and start again.',
      )
    const { request } = shown
    if (fields.get('decision') === 'deny') {
      await store.take('transaction', key)
      return this.#refuse(request.redirectUri, request.state, new OAuthError('access_denied', 'the user denied access'))
    }
    if (login.kind === 'federated') {
      if ((await store.take('transaction', key)) === undefined)
        throw new PageError(403, 'This page has already been used.')
      await store.offer({
        kind: 'consent',
        owner: networkOf(head.address),
        key: this.#consentKey(browser, request),
        value: { scopes: request.scopes },
        lifetimeSeconds: consentSeconds,
      })
      return this.#toProvider(login.provider, request, browser, head)
    }
    const username = fields.get('username') ?? ''
    const result = await login.users.login(username, fields.get('password') ?? '', head.address)
    const again = (problem: string, status: number) =>
      this.#page(request, csrfToken, username.slice(0, 128), problem, status)
    switch (result.kind) {
      case 'limited':
        return again('There were too many attempts. Wait 15 minutes.', 429)
      case 'busy':
        return again('Too many people are signing in right now. Try again.', 503)
      case 'wrong':
        return again('The user name or the password is wrong.', 403)
      case 'identity':
        if ((await store.take('transaction', key)) === undefined)
          throw new PageError(403, 'This page has already been used.')
        return this.#grant(request, result.identity)
    }
  }

  #consentKey(browser: string, request: AuthorizationRequest): string {
    return hashOf(JSON.stringify([browser, request.clientId, request.redirectUri, request.resource, ...request.scopes]))
  }

  async #hasConsented(browser: string, request: AuthorizationRequest): Promise<boolean> {
    return (await this.#parts.store.get('consent', this.#consentKey(browser, request))) !== undefined
  }

  /** @throws PageError if too many logins are open */
  async #begin({ address }: RequestHead, secret: string, value: RecordOf<'transaction'>): Promise<void> {
    const offered = { kind: 'transaction', owner: networkOf(address), key: hashOf(secret), value } as const
    if (await this.#parts.store.offer({ ...offered, lifetimeSeconds: transactionSeconds })) return
    throw new PageError(503, 'Too many people are signing in right now. Try again in a few minutes.')
  }

  async #toProvider(
    provider: Provider,
    request: AuthorizationRequest,
    browser: string,
    head: RequestHead,
  ): Promise<HttpResponse> {
    const [state, nonce, verifier] = [secretText(), secretText(), secretText()]
    const record = { request, browserHash: hashOf(browser), nonce, verifier }
    try {
      const url = await provider.loginUrl({ state, nonce, verifier })
      await this.#begin(head, state, record)
      return redirectTo(url, [this.#cookie(browser)])
    } catch (error) {
      return this.#failLogin(request, error)
    }
  }

  /** @throws errors other than OAuthError */
  #failLogin({ redirectUri, state }: AuthorizationRequest, error: unknown): HttpResponse {
    if (!(error instanceof OAuthError)) throw error
    this.#parts.logger.warn(loginFailure(error), 'a login at the identity provider failed')
    return this.#refuse(redirectUri, state, error)
  }

  /** GET /oauth/callback. @throws PageError, OAuthError */
  async callback(head: RequestHead): Promise<HttpResponse> {
    const { login, store } = this.#parts
    if (login.kind !== 'federated') throw new PageError(404, 'This page does not exist.')
    const fields = readFields(head.query)
    const browserHash = hashOf(cookieOf(head, this.#cookieName) ?? '')
    const key = hashOf(fields.get('state') ?? '')
    const begun = await store.get('transaction', key)
    const expired = new PageError(
      403,
      'This login has expired, or was started in another browser. Go back to the application and start again.',
    )
    if (begun?.verifier === undefined || begun.nonce === undefined || !sameText(begun.browserHash, browserHash))
      throw expired
    if ((await store.take('transaction', key)) === undefined) throw expired
    const { request, nonce, verifier } = begun
    try {
      const code = fields.get('code')
      if (code === undefined) throw new OAuthError('access_denied', 'the identity provider has not signed the user in')
      return await this.#grant(request, await login.provider.identify(code, fields.get('iss'), { nonce, verifier }))
    } catch (error) {
      return this.#failLogin(request, error)
    }
  }

  /** Redirects back with a code. The grant expires with the code, unless the client redeems the code. */
  async #grant(request: AuthorizationRequest, { subject, username, scopes }: Identity): Promise<HttpResponse> {
    const { store, clients, codeSeconds } = this.#parts
    const { clientId, redirectUri, state, codeChallenge, resource } = request
    const granted = request.scopes.filter(scope => scopes.includes(scope))
    if (granted.length === 0)
      return this.#refuse(redirectUri, state, new OAuthError('access_denied', 'the user has none of these scopes'))
    const [code, grant] = [secretText(), secretText()]
    await store.insert('grant', grant, { clientId, subject, username, scopes: granted, resource }, codeSeconds)
    await store.insert('code', hashOf(code), { clientId, redirectUri, codeChallenge, grant }, codeMemorySeconds)
    await clients.keep(clientId)
    return this.#back(redirectUri, state, { code })
  }
}
