/**
 * One endpoint of the helper API: request, caller and JSON response. The caller, the method and the size and syntax of
 * the body have already been checked.
 */
import type { PathParameters } from '../../http/router.ts'
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'
import type { Caller } from '../core/caller.ts'

export type ApiRequest = {
  readonly caller: Caller
  readonly query: URLSearchParams
  /** As sent, unchecked; null if the request has no body. */
  readonly body: Json
  /** The values of `{name}` in the route's path. */
  readonly parameters: PathParameters
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
}

export type ApiAnswer = { readonly status: number; readonly body: JsonObject }

export type ApiRoute = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Such as `/api/llm/chat`; `{id}` matches any one segment. */
  readonly path: string
  /** @throws ApiError, which is sent to the client; anything else is a 500 without details */
  answer(request: ApiRequest): Promise<ApiAnswer>
}
