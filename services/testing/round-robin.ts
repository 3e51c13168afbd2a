/**
 * A proxy for tests that sends each request to the next server, like a load balancer without session affinity. It skips
 * a server that refuses connections.
 */
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type RoundRobin = {
  readonly port: number
  /** How many requests each server has answered, by port. */
  readonly answered: ReadonlyMap<number, number>
  stop(): Promise<void>
}

const isRefused = (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED'

export async function startRoundRobin(ports: readonly number[]): Promise<RoundRobin> {
  const answered = new Map<number, number>()
  const agent = new Agent()
  let next = 0

  function send(incoming: IncomingMessage, response: ServerResponse, body: Buffer, triesLeft: number): void {
    const port = ports[next++ % ports.length] ?? 0
    const { method, url: path, headers } = incoming
    const sent = request({ host: '127.0.0.1', port, method, path, headers, agent }, answer => {
      answered.set(port, (answered.get(port) ?? 0) + 1)
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      response.flushHeaders()
      answer.on('error', () => response.destroy())
      answer.pipe(response)
    })
    response.on('close', () => sent.destroy())
    sent.on('error', (error: NodeJS.ErrnoException) => {
      if (isRefused(error) && triesLeft > 0) send(incoming, response, body, triesLeft - 1)
      else if (response.headersSent) response.destroy()
      else response.writeHead(599, { 'Content-Type': 'text/plain' }).end(error.message)
    })
    sent.end(body)
  }

  const server = createServer((incoming, response) => {
    const pieces: Buffer[] = []
    incoming.on('data', piece => pieces.push(piece))
    incoming.on('end', () => send(incoming, response, Buffer.concat(pieces), ports.length))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    // The proxy listens on a TCP port.
    port: (server.address() as AddressInfo).port,
    answered,
    stop: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
        agent.destroy()
      }),
  }
}
