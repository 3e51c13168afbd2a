/** Sends one API request with the caller's token. For https, the server's certificate is verified first. */
import { escapeControls } from '../../values/escape.ts'
import { CommandFailure, exitCodes } from '../errors.ts'
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
  /** What the user can do if the API does not answer. */
  advice?: string | undefined
}

/** `status`: undefined if no complete response arrived. */
export class ApiFailure extends CommandFailure {
  readonly status: number | undefined
  /** Whether the API sent the response, and not a proxy in front of the API. */
  readonly isFromApi: boolean

  constructor(message: string, status?: number, isFromApi = false) {
    super(message, exitCodeOf(status))
    this.status = status
    this.isFromApi = isFromApi
  }
}

function exitCodeOf(status: number | undefined) {
  if (status === 404) return exitCodes.notFound
  return status === 401 || status === 403 ? exitCodes.notAuthorised : exitCodes.failed
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
    throw new ApiFailure(`cannot reach the API at ${url.origin}: ${why}`)
  }
}

const errorBody = object({ code: optional(number), message: string })

/** Creates the error for a refused request, with the API's message if there is one. */
export function refusal(what: string, { status, text }: Answer): ApiFailure {
  const body = readJson(text)
  const why = errorBody(body) ? `, ${escapeControls(body.message)}` : ''
  return new ApiFailure(`${what}: the API returned ${status}${why}`, status, errorBody(body) && body.code === status)
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
