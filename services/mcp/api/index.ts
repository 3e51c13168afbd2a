/**
 * The helper API: HTTP requests of user interfaces that MCP does not have. The server refuses unauthenticated callers.
 * An error response is JSON with the reason. The server logs unexpected errors and sends the client no details of them.
 */
import type { Logger } from 'pino'
import { bearerChallenge } from '../../authentication/challenge.ts'
import type { HeaderList } from '../../http/headers.ts'
import { bodyRefusal, json } from '../../http/json-answers.ts'
import { readJsonBody } from '../../http/json-body.ts'
import type { Handler, HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import { matchRoute } from '../../http/router.ts'
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'
import { anyone, type Caller } from '../core/caller.ts'
import type { Authentication } from '../credentials/types.ts'
import { ApiError } from './errors.ts'
import type { ApiRoute } from './route.ts'

type Options = {
  readonly routes: readonly ApiRoute[]
  /** undefined: authentication is off, and every caller has all rights. */
  readonly authentication: Authentication | undefined
  readonly logger: Logger
  /** The maximum body size, if it is less than the HTTP server's own limit. */
  readonly maximumBodyBytes?: number
}

/** Responses contain a user's own data, so no client or proxy may cache them. */
const respond = (status: number, body: JsonObject, headers: HeaderList = []): HttpResponse =>
  json(status, body, [['Cache-Control', 'no-store'], ...headers])

/** Errors of `/api/databases` also have `success`. */
const refused = (path: string, status: number, error: string, headers?: HeaderList): HttpResponse =>
  respond(status, /^\/api\/databases(\/|$)/.test(path) ? { success: false, error } : { error }, headers)

export function createApi({ routes, authentication, logger, maximumBodyBytes }: Options): Handler {
  async function callerOf({ headers, address }: RequestHead): Promise<Caller> {
    if (authentication === undefined) return anyone
    const authenticated = await authentication.authenticate(headers.authorization, address)
    switch (authenticated.kind) {
      case 'caller':
        if (authenticated.caller.scopes.has('mcp:read')) return authenticated.caller
        throw new ApiError(403, 'the token lacks the scope mcp:read')
      case 'limited':
        throw new ApiError(429, 'too many failed attempts from this address', [
          ['Retry-After', String(authenticated.retryAfterSeconds)],
        ])
      case 'refused': {
        const challenge = bearerChallenge(authenticated.isMissing ? {} : { error: 'invalid_token' })
        throw new ApiError(401, 'a valid bearer token is required', [challenge])
      }
    }
  }

  async function answer(head: RequestHead, body: IncomingBody, signal: AbortSignal): Promise<HttpResponse> {
    const matched = matchRoute(routes, head)
    if (matched.kind === 'nothing') throw new ApiError(404, 'unknown path')
    if (matched.kind === 'other method') {
      const allowed = matched.allowed.join(', ')
      throw new ApiError(405, `allowed methods: ${allowed}`, [['Allow', allowed]])
    }
    const caller = await callerOf(head)
    const { route, parameters } = matched
    const request = {
      caller,
      parameters,
      query: new URLSearchParams(head.query),
      // JSON.parse returns only JSON values.
      body: (await readJsonBody(head, body, maximumBodyBytes)) as Json,
      signal,
    }
    const { status, body: content } = await route.answer(request)
    return respond(status, content)
  }

  return async (head, body, signal) => {
    try {
      return await answer(head, body, signal)
    } catch (error) {
      const ofBody = bodyRefusal(error)
      if (ofBody !== undefined) return refused(head.path, ofBody.status, ofBody.error, ofBody.headers)
      if (error instanceof ApiError) return refused(head.path, error.status, error.message, error.headers)
      if (signal.aborted) throw error
      logger.error({ err: error, path: head.path }, 'a request of the helper API failed')
      return refused(head.path, 500, 'internal error')
    }
  }
}
