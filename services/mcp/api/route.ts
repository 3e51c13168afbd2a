/**
 * One endpoint of the helper API, as its own part writes it: what is asked, by whom, and the JSON that answers. Who the caller is, that the
 * method is right and that the body is JSON of a lawful size has been seen to before.
 */
import type { PathParameters } from '../../http/router.ts'
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'
import type { Caller } from '../core/caller.ts'

export type ApiRequest = {
  readonly caller: Caller
  readonly query: URLSearchParams
  /** As sent, not checked; null where the request has no body. */
  readonly body: Json
  /** What stands in the path where the route has `{name}`. */
  readonly parameters: PathParameters
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal
}

export type ApiAnswer = { readonly status: number; readonly body: JsonObject }

export type ApiRoute = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** As `/api/llm/chat`; a part such as `{id}` stands for any one part. */
  readonly path: string
  /** @throws ApiError, which the client is told; anything else is a 500 that says nothing */
  answer(request: ApiRequest): Promise<ApiAnswer>
}
