/** The authorization server beside the bridge: its endpoints, its state, and whom the tokens it has given speak for. */
import type { Logger } from 'pino'
import { HttpError } from '../../http/errors.ts'
import type { HeaderList } from '../../http/headers.ts'
import type { Headers, HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import { isContentType } from '../../http/read-body.ts'
import { getRoutes, matchRoute } from '../../http/router.ts'
import { scopes } from '../../mcp-protocol/scopes.ts'
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
import { loadKeys } from './keys.ts'
import { Pages } from './pages.ts'
import { Store } from './records.ts'
import type { OAuthSettings } from './settings.ts'
import { openPostgresStore } from './store-postgres.ts'
import { openSqliteStore } from './store-sqlite.ts'
import { TokenEndpoint } from './token-endpoint.ts'

export type AuthorizationServer = {
  readonly authenticate: Authenticate
  /** Where what clients of this path need to know of authorization is said. */
  metadataUrlOf(path: string): string
  /** Whether pages of any origin may ask for this. */
  isPublic(path: string): boolean
  publicHeaders(headers: Headers): HeaderList
  /** undefined where the path is none of its own. */
  handle(head: RequestHead, body: IncomingBody): Promise<HttpResponse | undefined>
  stop(): Promise<void>
}

const sweepMs = 60_000
const cachedBriefly = [['Cache-Control', 'public, max-age=300']] as const

const pathsForAll = ['/oauth/jwks', '/oauth/token', '/register', '/oauth/register']

/** @throws where the state or the file of the keys cannot be used */
export async function startAuthorizationServer(
  settings: OAuthSettings,
  logger: Logger,
  outside: Outside = internet,
): Promise<AuthorizationServer> {
  const { issuer, resources, login: how } = settings
  const keys = await loadKeys(settings.keyFile)
  const { state } = settings
  const raw = state.kind === 'sqlite' ? openSqliteStore(state.path) : await openPostgresStore(state.uri)
  const store = new Store(raw, Date.now)
  const clients = new Clients(settings, store, new ClientDocuments(outside))
  const tokens = new AccessTokens(settings, keys, store)
  const pages = new Pages(settings.branding)
  const login: Login =
    how.mode === 'builtin'
      ? { kind: 'builtin', users: new BuiltinUsers(how.users, settings.loginAttempts, Date.now) }
      : { kind: 'federated', provider: new Provider(how.provider) }
  const authorize = new AuthorizationEndpoint({ ...settings, login, clients, store, pages })
  const scopesNow = (subject: string) => (login.kind === 'builtin' ? login.users.scopesOf(subject) : scopes)
  const token = new TokenEndpoint({ ...settings, clients, store, tokens, scopesNow })
  const documents = wellKnownDocuments(settings)
  const published = JSON.stringify(keys.published)
  const prefix = new URL(issuer).pathname.replace(/\/$/, '')
  const ownPath = (path: string) => (prefix !== '' && path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path)
  const sweeper = setInterval(() => {
    store.sweep().catch((error: unknown) => logger.warn({ err: error }, 'what has expired could not be removed'))
  }, sweepMs)

  const document = (text: string) => {
    const said = plainJson(200, JSON.parse(text), cachedBriefly)
    return () => Promise.resolve(said)
  }

  async function register(head: RequestHead, body: IncomingBody): Promise<HttpResponse> {
    if (!isContentType(head.headers['content-type'], 'application/json'))
      throw new OAuthError('invalid_client_metadata', 'Content-Type must be application/json')
    const text = await readSmallBody(body)
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      throw new OAuthError('invalid_client_metadata', 'the body is not valid JSON')
    }
    return plainJson(201, await clients.register(value, head.address))
  }

  /** Answers to programs: errors as JSON. */
  async function answerProgram(run: () => Promise<HttpResponse>): Promise<HttpResponse> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof OAuthError) {
        const status = error.code === 'temporarily_unavailable' ? 503 : 400
        return plainJson(status, { error: error.code, error_description: error.message })
      }
      if (error instanceof HttpError) throw error
      logger.error({ err: error }, 'the authorization server failed')
      return plainJson(500, { error: 'server_error', error_description: 'try again later' })
    }
  }

  /** Answers to people: errors as pages. */
  async function answerPerson(run: () => Promise<HttpResponse>): Promise<HttpResponse> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof PageError) return pages.problem(error.status, error.message)
      if (error instanceof OAuthError)
        return pages.problem(400, `The application asks for what it may not: ${error.message}.`)
      if (error instanceof HttpError) throw error
      logger.error({ err: error }, 'the authorization server failed')
      return pages.problem(503, 'Something went wrong here. Try again later.')
    }
  }

  type Answer = (head: RequestHead, body: IncomingBody) => Promise<HttpResponse>
  const post = (path: string, answer: Answer) => ({ method: 'POST', path, answer })
  const toRegister: Answer = (head, body) => answerProgram(() => register(head, body))
  const ownRoutes = [
    ...getRoutes<Answer>('/oauth/jwks', document(published)),
    post('/oauth/token', (head, body) => answerProgram(() => token.answer(head, body))),
    ...(settings.allowDynamicRegistration ? [post('/register', toRegister), post('/oauth/register', toRegister)] : []),
    {
      method: 'GET',
      path: '/oauth/authorize',
      answer: (head: RequestHead) => answerPerson(() => authorize.start(head)),
    },
    post('/oauth/authorize', (head, body) => answerPerson(() => authorize.submit(head, body))),
    {
      method: 'GET',
      path: '/oauth/callback',
      answer: (head: RequestHead) => answerPerson(() => authorize.callback(head)),
    },
  ]
  const wellKnown = [...documents].flatMap(([path, text]) => getRoutes<Answer>(path, document(text)))

  async function handle(head: RequestHead, body: IncomingBody): Promise<HttpResponse | undefined> {
    const known = matchRoute(wellKnown, head)
    const matched = known.kind === 'nothing' ? matchRoute(ownRoutes, { ...head, path: ownPath(head.path) }) : known
    if (matched.kind === 'route') return matched.route.answer(head, body)
    if (matched.kind === 'nothing') return undefined
    const allowed = matched.allowed.join(', ')
    const said = { error: 'invalid_request', error_description: `the methods here are ${allowed}` }
    return plainJson(405, said, [['Allow', allowed]])
  }

  return {
    authenticate: tokens.authenticate,
    metadataUrlOf: path => {
      const [first = issuer, other = first] = resources
      return resourceMetadataUrl(path === '/' ? other : first)
    },
    isPublic: path => documents.has(path) || pathsForAll.includes(ownPath(path)),
    publicHeaders: () => [
      ['Access-Control-Allow-Origin', '*'],
      ['Access-Control-Allow-Methods', 'GET, POST, OPTIONS'],
      ['Access-Control-Allow-Headers', 'Authorization, Content-Type, MCP-Protocol-Version'],
      ['Access-Control-Max-Age', '3600'],
    ],
    handle,
    async stop() {
      clearInterval(sweeper)
      await store.close()
    },
  }
}
