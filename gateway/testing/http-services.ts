/**
 * Services behind a gateway under test. Each responds with the request that it received and with its own name, and can
 * stream.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ownLoopback } from './sockets.ts'

/** A received request, as the service returns it. */
export type Received = { as: string; method: string; url: string; headers: Record<string, string>; bytes: number }

export type TestService = {
  host: string
  port: number
  /** The number of requests that arrived. */
  count(): number
  /** The number of requests that arrived with their complete body. */
  wholes(): number
  /** Sends an event on every open stream. */
  send(text: string): void
  streams(): number
  close(): Promise<void>
}

/**
 * Serves `/events` as a stream, never answers `/silent`, answers `/status/<n>` with that status, and answers everything
 * else with the received request.
 */
export async function openService(as: string, host = ownLoopback()): Promise<TestService> {
  const streams = new Set<ServerResponse>()
  let count = 0
  let wholes = 0
  const server = createServer((request, response) => {
    count++
    if (/\/events(\?|$)/.test(request.url ?? '')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.flushHeaders()
      streams.add(response)
      response.on('close', () => streams.delete(response))
    } else if (/\/silent$/.test(request.url ?? '')) request.on('close', () => {})
    else void answer(as, request, response, () => wholes++)
  })
  server.listen({ host, port: 0 })
  await once(server, 'listening')
  return {
    host,
    port: (server.address() as AddressInfo).port,
    count: () => count,
    wholes: () => wholes,
    send: text => {
      for (const stream of streams) stream.write(`data: ${text}\n\n`)
    },
    streams: () => streams.size,
    close: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function answer(
  as: string,
  request: IncomingMessage,
  response: ServerResponse,
  onComplete: () => void,
): Promise<void> {
  let bytes = 0
  try {
    for await (const chunk of request) bytes += chunk.length
  } catch {
    return
  }
  onComplete()
  const { method = '', url = '' } = request
  const status = Number(/\/status\/([0-9]+)$/.exec(url)?.[1] ?? 200)
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
  const received: Received = { as, method, url, headers, bytes }
  response.writeHead(status, { 'content-type': 'application/json', 'x-own': as }).end(JSON.stringify(received))
}
