/** The authorization server of the bridge: its endpoints, its state, and the check of its tokens. */
import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { HttpError } from '../../http/errors.ts'
import type { HeaderList } from '../../http/headers.ts'
import type { Headers, HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import { isContentType } from '../../http/read-body.ts'
import { getRoutes, matchRoute } from '../../http/router.ts'
import { scopes } from '../../mcp-protocol/scopes.ts'
import { ConnectionFailure } from '../../postgres/errors.ts'
import type { Authenticate } from '../callers.ts'
import { AccessTokens } from './access-tokens.ts'
import { AuthorizationEndpoint, type Login } from './authorize.ts'
import { BuiltinUsers } from './builtin.ts'
import { ClientDocuments, internet, type Outside } from './client-documents.ts'
import { Clients } from './clients.ts'
import { resourceMetadataUrl, wellKnownDocuments } from './discovery.ts'
import { OAuthError, PageError } from './errors.ts'
import { Provider } from './federated.ts'
import { plainJson, readSmallBody } from './form.ts'
import { loadKeys, rotateKeys, type SigningKeys } from './keys.ts'
import { loadKeysInState, rotateKeysInState } from './keys-in-state.ts'
import { Pages } from './pages.ts'
import { type RawStore, Store } from './records.ts'
import type { OAuthSettings } from './settings.ts'
import { openPostgresStore } from './store-postgres.ts'
import { openSqliteStore } from './store-sqlite.ts'
import { TokenEndpoint } from './token-endpoint.ts'

export type AuthorizationServer = {
  readonly authenticate: Authenticate
  /** The URL of the resource metadata for clients of this path. */
  metadataUrlOf(path: string): string
  /** Whether pages of every origin may request this path. */
  isPublic(path: string): boolean
  publicHeaders(headers: Headers): HeaderList
  /** Returns undefined if the path belongs to the bridge. */
  handle(head: RequestHead, body: IncomingBody): Promise<HttpResponse | undefined>
  stop(): Promise<void>
}

const sweepMs = 60_000
const cachedBriefly = [['Cache-Control', 'public, max-age=300']] as const

const pathsForAll = ['/oauth/jwks', '/oauth/token', '/register', '/oauth/register']

type Answer = (head: RequestHead, body: IncomingBody) => Promise<HttpResponse>
type Route = { readonly method: string; readonly path: string; readonly answer: Answer }

const retryMs = 250

/**
 * Retries while Postgres cannot be reached, because it may still be starting. @throws other errors of opening the
 * state; the signal's abort reason
 */
async function openState({ state }: OAuthSettings, logger: Logger, stopping: AbortSignal): Promise<RawStore> {
  if (state.kind === 'sqlite') return openSqliteStore(state.path)
  for (let logged: string | undefined; ; ) {
    try {
      return await openPostgresStore(state.address)
    } catch (error) {
      if (!(error instanceof ConnectionFailure)) throw error
      const { message: reason } = error
      if (reason !== logged)
        logger.warn({ reason }, 'the state of the authorization server cannot be reached; trying again')
      logged = reason
      await setTimeout(retryMs, undefined, { signal: stopping })
    }
  }
}

/** @throws if the state or the key file cannot be used; the abort reason of `stopping` */
export async function startAuthorizationServer(
  settings: OAuthSettings,
  logger: Logger,
  stopping: AbortSignal,
  outside: Outside = internet,
): Promise<AuthorizationServer> {
  const { signing } = settings
  const raw = await openState(settings, logger, stopping)
  try {
    const keys = await (signing.kind === 'file' ? loadKeys(signing.path) : loadKeysInState(raw, signing.secret))
    return new Endpoints({ settings, logger, keys, store: new Store(raw, Date.now), outside })
  } catch (error) {
    await raw.close()
    throw error
  }
}

/** Adds a key, which signs after the next start. Returns the key's id. */
export async function rotateSigningKey(
  settings: OAuthSettings,
  logger: Logger,
  stopping: AbortSignal,
): Promise<string> {
  if (settings.signing.kind === 'file') return rotateKeys(settings.signing.path)
  const raw = await openState(settings, logger, stopping)
  try {
    return await rotateKeysInState(raw, settings.signing.secret)
  } finally {
    await raw.close()
  }
}

type Parts = {
  readonly settings: OAuthSettings
  readonly logger: Logger
  readonly keys: SigningKeys
  readonly store: Store
  readonly outside: Outside
}

const loginOf = ({ issuer, login, loginAttempts }: OAuthSettings): Login =>
  login.mode === 'builtin'
    ? { kind: 'builtin', users: new BuiltinUsers(login.users, loginAttempts, Date.now) }
    : { kind: 'federated', provider: new Provider(login.provider, `${issuer}/oauth/callback`) }

/** The path of the issuer. All endpoints of the issuer are below it. */
const prefixOf = ({ issuer }: OAuthSettings): string => new URL(issuer).pathname.replace(/\/$/, '')

function document(text: string): Answer {
  const answer = plainJson(200, JSON.parse(text), cachedBriefly)
  return () => Promise.resolve(answer)
}

class Endpoints implements AuthorizationServer {
  readonly authenticate: Authenticate
  readonly #settings: OAuthSettings
  readonly #logger: Logger
  readonly #store: Store
  readonly #clients: Clients
  readonly #pages: Pages
  readonly #wellKnown: readonly Route[]
  readonly #own: readonly Route[]
  readonly #publicPaths: ReadonlySet<string>
  readonly #prefix: string
  readonly #sweeper: NodeJS.Timeout

  constructor({ settings, logger, keys, store, outside }: Parts) {
    this.#settings = settings
    this.#logger = logger
    this.#store = store
    this.#clients = new Clients(settings, store, new ClientDocuments(outside))
    this.#pages = new Pages(settings.branding)
    const tokens = new AccessTokens(settings, keys, store)
    this.authenticate = tokens.authenticate
    const documents = wellKnownDocuments(settings)
    this.#publicPaths = new Set(documents.keys())
    this.#wellKnown = [...documents].flatMap(([path, text]) => getRoutes(path, document(text)))
    this.#own = this.#ownRoutes(tokens, JSON.stringify(keys.published))
    this.#prefix = prefixOf(settings)
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs)
  }

  #ownRoutes(tokens: AccessTokens, publishedKeys: string): readonly Route[] {
    const parts = { ...this.#settings, clients: this.#clients, store: this.#store }
    const login = loginOf(this.#settings)
    const scopesNow = (subject: string) => (login.kind === 'builtin' ? login.users.scopesOf(subject) : scopes)
    const token = new TokenEndpoint({ ...parts, tokens, scopesNow })
    const authorize = new AuthorizationEndpoint({ ...parts, login, pages: this.#pages, logger: this.#logger })
    const program = (path: string, answer: Answer): Route => ({
      method: 'POST',
      path,
      answer: (head, body) => this.#answerProgram(() => answer(head, body)),
    })
    const person = (method: string, path: string, answer: Answer): Route => ({
      method,
      path,
      answer: (head, body) => this.#answerPerson(() => answer(head, body)),
    })
    const registrations = this.#settings.allowDynamicRegistration ? ['/register', '/oauth/register'] : []
    return [
      ...getRoutes('/oauth/jwks', document(publishedKeys)),
      program('/oauth/token', (head, body) => token.answer(head, body)),
      ...registrations.map(path => program(path, (head, body) => this.#register(head, body))),
      person('GET', '/oauth/authorize', head => authorize.start(head)),
      person('POST', '/oauth/authorize', (head, body) => authorize.submit(head, body)),
      person('GET', '/oauth/callback', head => authorize.callback(head)),
    ]
  }

  #sweep(): void {
    this.#store.sweep().catch((err: unknown) => this.#logger.warn({ err }, 'expired records could not be deleted'))
  }

  async #register(head: RequestHead, body: IncomingBody): Promise<HttpResponse> {
    if (!isContentType(head.headers['content-type'], 'application/json'))
      throw new OAuthError('invalid_client_metadata', 'Content-Type must be application/json')
    const text = await readSmallBody(body)
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      throw new OAuthError('invalid_client_metadata', 'the body is not valid JSON')
    }
    return plainJson(201, await this.#clients.register(value, head.address))
  }

  /** Answers a client. Errors are JSON. */
  async #answerProgram(run: () => Promise<HttpResponse>): Promise<HttpResponse> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof OAuthError) {
        const status = error.code === 'temporarily_unavailable' ? 503 : 400
        return plainJson(status, { error: error.code, error_description: error.message })
      }
      this.#logFailure(error)
      return plainJson(500, { error: 'server_error', error_description: 'try again later' })
    }
  }

  /** Answers a browser. Errors are pages. */
  async #answerPerson(run: () => Promise<HttpResponse>): Promise<HttpResponse> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof PageError) return this.#pages.problem(error.status, error.message)
      if (error instanceof OAuthError)
        return this.#pages.problem(400, `The application sent a request that is not allowed: ${error.message}.`)
      this.#logFailure(error)
      return this.#pages.problem(503, 'Something went wrong. Try again later.')
    }
  }

  /** @throws HttpError unchanged, because the HTTP server answers it */
  #logFailure(error: unknown): void {
    if (error instanceof HttpError) throw error
    this.#logger.error({ err: error }, 'the authorization server failed')
  }

  #ownPath(path: string): string {
    return this.#prefix !== '' && path.startsWith(`${this.#prefix}/`) ? path.slice(this.#prefix.length) : path
  }

  metadataUrlOf(path: string): string {
    const { issuer, resources } = this.#settings
    const [first = issuer, other = first] = resources
    return resourceMetadataUrl(path === '/' ? other : first)
  }

  isPublic(path: string): boolean {
    return this.#publicPaths.has(path) || pathsForAll.includes(this.#ownPath(path))
  }

  publicHeaders(): HeaderList {
    return [
      ['Access-Control-Allow-Origin', '*'],
      ['Access-Control-Allow-Methods', 'GET, POST, OPTIONS'],
      ['Access-Control-Allow-Headers', 'Authorization, Content-Type, MCP-Protocol-Version'],
      ['Access-Control-Max-Age', '3600'],
    ]
  }

  async handle(head: RequestHead, body: IncomingBody): Promise<HttpResponse | undefined> {
    const known = matchRoute(this.#wellKnown, head)
    const matched =
      known.kind === 'nothing' ? matchRoute(this.#own, { ...head, path: this.#ownPath(head.path) }) : known
    if (matched.kind === 'route') return matched.route.answer(head, body)
    if (matched.kind === 'nothing') return undefined
    const allowed = matched.allowed.join(', ')
    const problem = { error: 'invalid_request', error_description: `allowed methods: ${allowed}` }
    return plainJson(405, problem, [['Allow', allowed]])
  }

  async stop(): Promise<void> {
    clearInterval(this.#sweeper)
    await this.#store.close()
  }
}
