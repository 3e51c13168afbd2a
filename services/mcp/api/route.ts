/**
 * One endpoint of the helper API: request, caller and JSON response. The API has already checked the caller, the
 * method, the body's size and the body's syntax.
 */
import type { PathParameters } from '../../http/router.ts'
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'
import type { Caller } from '../core/caller.ts'

export type ApiRequest = {
  readonly caller: Caller
  readonly query: URLSearchParams
  /** The body as sent, not checked against a schema; null if the request has no body. */
  readonly body: Json
  /** The values of `{name}` in the route's path. */
  readonly parameters: PathParameters
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
}

export type ApiAnswer = { readonly status: number; readonly body: JsonObject }

export type ApiRoute = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** For example `/api/llm/chat`. `{id}` matches any one segment. */
  readonly path: string
  /** @throws ApiError, which the API sends to the client; for any other error it sends a 500 without details */
  answer(request: ApiRequest): Promise<ApiAnswer>
}
