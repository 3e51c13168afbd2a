/** Sends one API request with the caller's token. For https, the server's certificate is verified first. */
import { escapeControls } from '../../values/escape.ts'
import { ApiFailure } from '../errors.ts'
import { number, object, optional, string } from '../shape.ts'
import { type Answer, send, stream, whyOf } from './request.ts'

/** The API's address and the caller's token. */
export type Api = {
  url: URL
  token: string
  /** The CAs that verify the API's certificate, in PEM. Default: the public CAs. */
  authority?: string | undefined
  /** The name in the API's certificate, if it is not the URL's host. */
  name?: string | undefined
  /** How long one response may take. Default: the longest `Prefer: wait`, plus a margin. */
  timeoutMs?: number | undefined
  /**
   * Returns the API with a new token. Returns another API if the user changed the profile's API meanwhile. `renew` is
   * absent during `login`, and for a token from ESPALIER_TOKEN.
   */
  renew?: (() => Promise<Api>) | undefined
  /** The advice in the error message if the API does not respond. */
  advice?: string | undefined
}

export type Call = {
  method?: string
  body?: unknown
  /** The maximum seconds that the API waits for the object's running operations. */
  wait?: number
  ifMatch?: string | undefined
}

const authorization = (token: string): Record<string, string> =>
  token === '' ? {} : { authorization: `Bearer ${token}` }

/** A stream without data for this long is broken: the API sends a comment every 15 s. */
const silentMs = 45_000

/** Yields the text of an endless response. @throws Error if the status is not 200, or the connection breaks */
export const openStream = ({ url, token, authority, name }: Api, path: string, signal: AbortSignal) =>
  stream(new URL(`/managed/v1${path}`, url), { headers: authorization(token), authority, name }, { signal, silentMs })

/** @throws ApiFailure if no complete response arrives */
export async function request(
  { url, token, authority, name, timeoutMs, advice }: Api,
  path: string,
  call: Call,
): Promise<Answer> {
  const { method, body, wait = 0, ifMatch } = call
  const headers = {
    ...authorization(token),
    ...(wait > 0 ? { prefer: `wait=${wait}` } : {}),
    ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
  }
  try {
    return await send(new URL(`/managed/v1${path}`, url), { method, headers, body, authority, name, timeoutMs })
  } catch (error) {
    const why = `${escapeControls(whyOf(error))}${advice === undefined ? '' : `; ${advice}`}`
    throw new ApiFailure(`cannot reach the API at ${url.origin}: ${why}`, { request: requestOf(path, call) })
  }
}

export const requestOf = (path: string, { method = 'GET' }: Call = {}): string => `${method} ${path}`

const errorBody = object({ code: optional(number), message: string })

/** Creates the error for a refused request: the API's message, or what the server returned in its place. */
export function refusal({ url }: Api, request: string, answer: Answer): ApiFailure {
  const body = readJson(answer.text)
  const { status } = answer
  if (!errorBody(body)) return notTheApi(url, request, answer)
  return new ApiFailure(escapeControls(body.message), { request, status, isFromApi: body.code === status })
}

/** Creates the error for a response that is not from Espalier's API. */
export function notTheApi(url: URL, request: string, { status, text }: Answer): ApiFailure {
  const found = `it returned ${status} with ${contentOf(text)}`
  const check = 'check ESPALIER_API_URL, or the URL of the profile'
  return new ApiFailure(`the server at ${url.origin} is not the API of Espalier: ${found}; ${check}`, {
    request,
    status,
  })
}

function contentOf(text: string): string {
  if (text.trim() === '') return 'no text'
  if (text.trimStart().startsWith('<')) return 'HTML or XML'
  return readJson(text) === undefined ? 'text that is not JSON' : 'JSON of an unknown form'
}

export function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the claims of a token, to show or to compare them: the signature is not verified. */
export function claimsOf(token: string): Record<string, unknown> {
  const value = readJson(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
