/**
 * HTTP to the API server: pooled connections, timeouts and limits on responses. It does not interpret objects. Every
 * fault of a connection is a ClusterError `Unavailable`. No error or log line contains a header.
 */
import http from 'node:http'
import https from 'node:https'
import { ClusterError } from '../errors.ts'
import type { Access } from './configuration.ts'
import type { Limits } from './limits.ts'

export type HttpRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path and query. */
  path: string
  body?: { type: string; text: string }
}
export type HttpAnswer = { code: number; retryAfter: string | undefined; text: string }

export type Transport = {
  /** Sends an ordinary request, and returns its complete response. */
  send(request: HttpRequest): Promise<HttpAnswer>
  /**
   * Sends a GET whose response is a stream. `chunks` ends with the stream, and throws `Unavailable` if the connection
   * breaks. It ends without an error when the signal aborts, or after `watchIdleMs` without data.
   */
  stream(path: string, signal: AbortSignal): Promise<HttpAnswer | { chunks: AsyncGenerator<Buffer> }>
  /** Aborts all requests and closes every connection. */
  close(): void
}

/** `onDate` receives the API server's clock, ms since the epoch, with every response. */
export function openTransport(
  access: Access,
  limits: Limits,
  onDate: (serverMs: number) => void = () => {},
): Transport {
  const secure = access.server.startsWith('https:')
  const client = secure ? https : http
  // An idle connection is closed before the API server closes it (after 90 s). Otherwise, the next request could use it
  // while the server closes it.
  const pooled = { keepAlive: true, keepAliveMsecs: 30_000, timeout: 60_000, maxSockets: limits.connections }
  const ordinary = secure ? new https.Agent(pooled) : new http.Agent(pooled)
  const watching = secure ? new https.Agent({ keepAlive: false }) : new http.Agent({ keepAlive: false })
  const closing = new AbortController()

  const open = async (request: HttpRequest, agent: http.Agent, signal: AbortSignal): Promise<http.IncomingMessage> => {
    const options = await access.authenticate()
    const text = request.body?.text
    const headers = {
      // The library sets an object here, never the list of names and values that Node also accepts.
      ...(options.headers as http.OutgoingHttpHeaders | undefined),
      accept: 'application/json',
      'user-agent': 'espalier',
      ...(request.body === undefined ? {} : { 'content-type': request.body.type }),
      ...(text === undefined ? {} : { 'content-length': Buffer.byteLength(text) }),
    }
    const { method } = request
    const chosen = access.proxied ? (options.agent ?? agent) : agent
    return await new Promise((resolve, reject) => {
      const outgoing = client.request(`${access.server}${request.path}`, {
        ...options,
        method,
        headers,
        agent: chosen,
        signal,
      })
      watchConnecting(outgoing, secure, limits.connectMs)
      outgoing.on('response', response => {
        const date = Date.parse(response.headers.date ?? '')
        if (!Number.isNaN(date)) onDate(date)
        resolve(response)
      })
      outgoing.on('error', reject)
      outgoing.end(text)
    })
  }

  const send = async (request: HttpRequest): Promise<HttpAnswer> => {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), limits.answerMs)
    try {
      const response = await open(request, ordinary, AbortSignal.any([late.signal, closing.signal]))
      return await answerOf(response, limits.answerBytes)
    } catch (error) {
      if (late.signal.aborted) throw unavailable(access, `did not answer within ${limits.answerMs} ms`, error)
      throw asUnavailable(access, closing.signal.aborted, error)
    } finally {
      clearTimeout(timer)
    }
  }

  const stream = async (
    path: string,
    signal: AbortSignal,
  ): Promise<HttpAnswer | { chunks: AsyncGenerator<Buffer> }> => {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), limits.answerMs)
    const ended = AbortSignal.any([signal, closing.signal])
    try {
      const response = await open({ method: 'GET', path }, watching, AbortSignal.any([ended, late.signal]))
      if (response.statusCode === 200) return { chunks: chunksOf(response, access, limits, ended) }
      return await answerOf(response, limits.answerBytes)
    } catch (error) {
      if (ended.aborted) return { chunks: nothing() }
      if (late.signal.aborted) throw unavailable(access, `did not answer within ${limits.answerMs} ms`, error)
      throw asUnavailable(access, false, error)
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    send,
    stream,
    close: () => {
      closing.abort()
      ordinary.destroy()
      watching.destroy()
    },
  }
}

/** Aborts a connection that is not established in time. A pooled connection is already established. */
function watchConnecting(outgoing: http.ClientRequest, secure: boolean, connectMs: number): void {
  outgoing.once('socket', socket => {
    if (!socket.connecting) return
    const timer = setTimeout(() => outgoing.destroy(new Error(`no connection within ${connectMs} ms`)), connectMs)
    const stop = (): void => clearTimeout(timer)
    socket.once(secure ? 'secureConnect' : 'connect', stop)
    socket.once('close', stop)
    socket.setKeepAlive(true, 30_000)
  })
}

async function answerOf(response: http.IncomingMessage, maxBytes: number): Promise<HttpAnswer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.length
    if (size > maxBytes) {
      response.destroy()
      throw new ClusterError(
        'Unavailable',
        `the API server's response is larger than ${maxBytes} bytes: list in pages (limit)`,
      )
    }
    parts.push(part)
  }
  const { statusCode = 0, headers } = response
  return { code: statusCode, retryAfter: headers['retry-after'], text: Buffer.concat(parts, size).toString('utf8') }
}

/** The chunks of a stream. The idle timeout runs only while this waits for a chunk, not while the consumer works. */
async function* chunksOf(
  response: http.IncomingMessage,
  access: Access,
  limits: Limits,
  ended: AbortSignal,
): AsyncGenerator<Buffer> {
  const chunks = (response as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  let idle = false
  try {
    for (;;) {
      const timer = setTimeout(() => {
        idle = true
        response.destroy()
      }, limits.watchIdleMs)
      const next = await chunks.next().finally(() => clearTimeout(timer))
      if (next.done === true || ended.aborted) return
      yield next.value
    }
  } catch (error) {
    if (!ended.aborted && !idle) throw asUnavailable(access, false, error)
  } finally {
    response.destroy()
  }
}

async function* nothing(): AsyncGenerator<Buffer> {}

function asUnavailable(access: Access, closed: boolean, error: unknown): ClusterError {
  if (error instanceof ClusterError) return error
  if (closed) return new ClusterError('Unavailable', 'the connection to the API server is closed')
  return unavailable(access, `is not reachable: ${error instanceof Error ? error.message : String(error)}`, error)
}

const unavailable = (access: Access, what: string, cause: unknown): ClusterError =>
  new ClusterError('Unavailable', `the API server ${new URL(access.server).host} ${what}`, { cause })
