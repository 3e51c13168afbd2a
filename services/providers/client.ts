/**
 * Sends one HTTP request to a provider over keep-alive connections. Uses Node's http client, because `fetch` needs
 * three times as much CPU time, and its garbage survives young generation collections (bench/rag.ts). Does not follow
 * redirects.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request as requestTls, Agent as TlsAgent } from 'node:https'
import { pipeline, type Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { Agent, request as requestPlain } from '../../server/node-http.ts'
import { version } from '../../server/version.ts'

type Outgoing = {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

export type ProviderResponse = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The decompressed body. Destroying it ends the request. */
  readonly body: Readable
}

/**
 * The idle timeout is short, because servers close idle connections at any time, and networks drop them. Node respects
 * a shorter `Keep-Alive: timeout=` of the server.
 */
const idleMs = 4_000
const common = {
  keepAlive: true,
  timeout: idleMs,
  // The same rule as in Node's other HTTP clients.
  ...(process.env.NODE_USE_ENV_PROXY === '1' && { proxyEnv: process.env }),
}
const [plain, tls] = [new Agent(common), new TlsAgent(common)]

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}
const ownHeaders = { 'accept-encoding': 'gzip, deflate, br', 'user-agent': `espalier/${version}` }

function bodyOf(response: IncomingMessage): Readable {
  const decoder = decoders[response.headers['content-encoding']?.toLowerCase() ?? '']?.()
  // The reader receives an error of the response as well as an error of the decoder.
  return decoder === undefined ? response : pipeline(response, decoder, () => {})
}

/**
 * Resolves when the head of the response arrives. The signal ends the request until the caller has read the body.
 * @throws Error with the system's `code` if the connection fails
 */
export function request(
  url: string,
  { method, headers, body }: Outgoing,
  signal: AbortSignal,
): Promise<ProviderResponse> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
    const options = { method, headers: { ...ownHeaders, ...headers, ...length } }
    const sent = url.startsWith('https:')
      ? requestTls(url, { ...options, agent: tls })
      : requestPlain(url, { ...options, agent: plain })
    const abort = () => void sent.destroy(new Error('aborted'))
    signal.addEventListener('abort', abort, { once: true })
    sent.on('close', () => {
      signal.removeEventListener('abort', abort)
      // For a response such as 101, `close` is the only event. After other events, this rejection has no effect.
      reject(Object.assign(new Error('the connection ended without a response'), { code: 'ECONNRESET' }))
    })
    sent.on('upgrade', (_, socket) => socket.destroy())
    // This error may also arrive after the response, because a provider that refuses a body does not always read it.
    sent.on('error', reject)
    sent.on('response', response =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: bodyOf(response) }),
    )
    if (signal.aborted) abort()
    sent.end(body)
  })
}
