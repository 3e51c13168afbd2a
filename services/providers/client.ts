/**
 * Sends one HTTP request to a provider over keep-alive connections. Uses Node's http client: `fetch` needs three times
 * as much CPU time, and its garbage survives young generation collections (bench/rag.ts). Redirects are not followed.
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
  /** Decompressed. Destroying it ends the request. */
  readonly body: Readable
}

/**
 * Servers close idle connections at any time, and networks drop them. A shorter `Keep-Alive: timeout=` of the server is
 * respected.
 */
const idleMs = 4_000
const common = {
  keepAlive: true,
  timeout: idleMs,
  // Like Node's other clients.
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
  // The reader receives the failure of either.
  return decoder === undefined ? response : pipeline(response, decoder, () => {})
}

/**
 * Resolves when the head of the response has been received. The signal ends the request until its body has been read.
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
      // For a response such as 101 there is no other event; settling a promise again has no effect.
      reject(Object.assign(new Error('the connection ended without a response'), { code: 'ECONNRESET' }))
    })
    sent.on('upgrade', (_, socket) => socket.destroy())
    // May also arrive after the response: a provider that refuses a body does not always read it.
    sent.on('error', reject)
    sent.on('response', response =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: bodyOf(response) }),
    )
    if (signal.aborted) abort()
    sent.end(body)
  })
}
