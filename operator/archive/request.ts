/** One request over mutual TLS with a short JSON response, to a member's agent or to the archive. */
import { request } from 'node:https'

export type Peer = {
  host: string
  port: number
  /** The name that the server's certificate must have. Absent for its address. */
  servername?: string | undefined
  ca: string
  cert: string
  key: string
}

export type Answer = { status: number; body: unknown }

const timeoutMs = 5_000
const mostBytes = 64 * 1024

/** @throws Error for a timeout, a response of more than 64 KiB, or invalid JSON; the signal's reason */
export function requestJson(
  peer: Peer,
  { method, path }: { method: 'GET' | 'PUT' | 'DELETE'; path: string },
  signal: AbortSignal,
): Promise<Answer> {
  const { servername, ...rest } = peer
  const options = { ...rest, ...(servername === undefined ? {} : { servername }) }
  const ends = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(signal.aborted ? signal.reason : error)
    const headers = { accept: 'application/json', 'content-length': 0 }
    const sent = request({ ...options, method, path, headers, agent: false, minVersion: 'TLSv1.2', signal: ends })
    sent.on('error', fail)
    sent.on('response', response => {
      const chunks: Buffer[] = []
      let size = 0
      response.on('error', fail)
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > mostBytes) sent.destroy(new Error(`the response has more than ${mostBytes} bytes`))
        else chunks.push(chunk)
      })
      response.on('end', () => {
        const status = response.statusCode ?? 0
        try {
          const text = Buffer.concat(chunks).toString('utf8')
          resolve({ status, body: text === '' ? undefined : JSON.parse(text) })
        } catch {
          // A proxy in front of the server may respond in another format.
          resolve({ status, body: undefined })
        }
      })
    })
    sent.end()
  })
}
