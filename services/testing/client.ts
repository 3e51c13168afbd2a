/** A client of a service for tests. */
import { once } from 'node:events'
import { type Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'

export type TestRequest = {
  method?: string
  headers?: Record<string, string>
  body?: string | Buffer
  /** Ends the request from the client's side. */
  signal?: AbortSignal
  /** A Unix socket, instead of the port. */
  socketPath?: string
}
export type Answer = { status: number; statusText: string; headers: IncomingHttpHeaders; text: string }

/** Sends the path without normalization. Each agent has its own connections. */
export function sendRequest(port: number, path: string, options: TestRequest = {}, agent?: Agent): Promise<Answer> {
  const { method = 'GET', headers = {}, body, signal, socketPath } = options
  // For some methods only, Node's client sets the length of a body automatically.
  const isSized = body === undefined || 'Transfer-Encoding' in headers
  const sized = isSized ? headers : { ...headers, 'Content-Length': String(Buffer.byteLength(body)) }
  const where = socketPath === undefined ? { host: '127.0.0.1', port } : { socketPath }
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ ...where, path, method, headers: sized, agent, signal }, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          statusText: response.statusMessage ?? '',
          headers: response.headers,
          text: Buffer.concat(chunks).toString('utf8'),
        }),
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** The names in the certificate that a server presents to a new connection. */
export async function namesAt(port: number): Promise<string> {
  const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect')
    return socket.getPeerCertificate().subjectaltname ?? ''
  } finally {
    socket.destroy()
  }
}

/** Waits until the condition is true, up to the test's own timeout. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(10)
}
