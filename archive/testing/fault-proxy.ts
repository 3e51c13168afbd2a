/**
 * An HTTP proxy in front of an S3 server, for tests. For each request, the test can select a fault: an error response,
 * no response, or a connection reset.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type Fault = { kind: 'answer'; status: number; code: string } | { kind: 'silence' } | { kind: 'reset' }

export type FaultProxy = {
  endpoint: string
  /** The fault for this request. Undefined: the proxy forwards the request. */
  faultOf: (method: string, path: string) => Fault | undefined
  /** The number of requests with each kind of fault. */
  met: { [kind in Fault['kind']]: number }
  stop(): void
}

export async function startFaultProxy(endpoint: string): Promise<FaultProxy> {
  const server = createServer((incoming, response) => {
    const fault = proxy.faultOf(incoming.method ?? '', incoming.url ?? '')
    if (fault === undefined) return forward(endpoint, incoming, response)
    proxy.met[fault.kind]++
    if (fault.kind === 'reset') return void incoming.socket.destroy()
    incoming.resume()
    if (fault.kind === 'silence') return
    response.writeHead(fault.status, { 'content-type': 'application/xml' })
    const text = `<Error><Code>${fault.code}</Code><Message>error of the test</Message></Error>`
    response.end(incoming.method === 'HEAD' ? undefined : text)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy: FaultProxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faultOf: () => undefined,
    met: { answer: 0, silence: 0, reset: 0 },
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  }
  return proxy
}

function forward(endpoint: string, incoming: IncomingMessage, response: ServerResponse): void {
  const { method, headers, url = '' } = incoming
  const sent = request(new URL(url, endpoint), { method, headers, agent: false }, answer => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  sent.on('error', () => response.destroy())
  incoming.on('error', () => sent.destroy())
  incoming.pipe(sent)
}
