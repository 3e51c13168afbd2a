/**
 * One call of the API, with no other rights than a user's own script. The token is sent in clear text only to this
 * machine, and never to a server whose certificate is not verified.
 */
import { escapeControls } from '../../values/escape.ts'
import { CommandFailure, exitCodes } from '../errors.ts'
import { object, string } from '../shape.ts'
import { type Answer, send, stream, whyOf } from './request.ts'

/** The API's address and the caller's token. */
export type Api = {
  url: URL
  token: string
  /** The CAs that verify its certificate, in PEM; if absent, the public ones. */
  authority?: string | undefined
  /** The name in its certificate, if that is not the host of the URL. */
  name?: string | undefined
  /** How long one response may take. Default: the longest `Prefer: wait`, plus a margin. */
  timeoutMs?: number | undefined
  /** What to do if it does not answer. */
  advice?: string | undefined
}

/** `status`: undefined if no complete response arrived. */
export class ApiFailure extends CommandFailure {
  readonly status: number | undefined

  constructor(message: string, status?: number) {
    super(message, exitCodeOf(status))
    this.status = status
  }
}

function exitCodeOf(status: number | undefined) {
  if (status === 404) return exitCodes.notFound
  return status === 401 || status === 403 ? exitCodes.notAuthorised : exitCodes.failed
}

export type Call = {
  method?: string
  body?: unknown
  /** Seconds for which the API may delay its response until the object is stable. */
  wait?: number
  ifMatch?: string | undefined
}

const authorization = (token: string): Record<string, string> =>
  token === '' ? {} : { authorization: `Bearer ${token}` }

/** A stream without data for this long is broken: the API sends a comment every 15 s. */
const silentMs = 45_000

/** The text of an endless response as it arrives. @throws Error if the status is not 200, or the connection breaks */
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

const errorBody = object({ message: string })

/** The API's message, if it has one. */
export function refusal(what: string, { status, text }: Answer): ApiFailure {
  const body = readJson(text)
  const why = errorBody(body) ? `, ${escapeControls(body.message)}` : ''
  return new ApiFailure(`${what}: the API returned ${status}${why}`, status)
}

export function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
