/** The typed client of the API, with the token of one account. */
import createClient, { type Client, type Middleware } from 'openapi-fetch'
import { texts } from '../texts.ts'
import { ApiError } from './errors.ts'
import type { components, paths } from './schema.ts'

export type Schemas = components['schemas']
export type Api = Client<paths>

type Access = {
  token: () => string
  /** Called when the API no longer accepts the token. */
  refused: (message: string) => void
}

export function createApi({ token, refused }: Access): Api {
  const api = createClient<paths>({ baseUrl: '', credentials: 'omit', cache: 'no-store' })
  const authorize: Middleware = {
    onRequest: ({ request }) => request.headers.set('authorization', `Bearer ${token()}`),
    onResponse: async ({ response }) => {
      if (response.status === 401) refused((await messageOf(response.clone())).message)
    },
  }
  api.use(authorize)
  return api
}

/** Returns the message of an error response. The response of a proxy may not be JSON. */
async function messageOf(response: Response): Promise<{ message: string }> {
  const body: unknown = await response.json().catch(() => undefined)
  if (typeof body === 'object' && body !== null && 'message' in body && typeof body.message === 'string')
    return { message: body.message }
  return { message: texts.errors.status(response.status) }
}

type Answer<T> = { data?: T; error?: unknown; response: Response }

/**
 * Returns the data of a response.
 * @throws ApiError with the API's message
 */
export async function read<T>(request: Promise<Answer<T>>): Promise<T> {
  return (await answer(request)).data
}

/** Returns the data like `read`, and the response with its headers. */
export async function answer<T>(request: Promise<Answer<T>>): Promise<{ data: T; response: Response }> {
  let result: Answer<T>
  try {
    result = await request
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError(0, texts.errors.unreachable)
  }
  const { data, error, response } = result
  if (response.ok) return { data: data as T, response }
  const requestId = response.headers.get('x-request-id') ?? undefined
  const message =
    typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string'
      ? error.message
      : texts.errors.status(response.status)
  throw new ApiError(response.status, message, requestId)
}
