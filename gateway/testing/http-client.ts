/** HTTPS requests of gateway tests: what is sent is said in full, and what comes back is read in full. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { connect, type TLSSocket } from 'node:tls'

/** `ca`: of its certificate, which is not verified without. */
export type Listener = { host: string; port: number; ca?: string }
export type Asked = {
  path: string
  /** The host name of the handshake, and of the request unless `headers.host` says otherwise. `''`: by address. */
  name?: string
  method?: string
  headers?: Record<string, string>
  body?: string | Buffer
  /** The address that the request comes from. */
  from?: string
}
type Answer = { status: number; headers: IncomingMessage['headers']; body: string }

/** A response whose body is still to come. */
export async function open(listener: Listener, asked: Asked): Promise<IncomingMessage> {
  const { path, name = '', method = 'GET', headers = {}, body, from } = asked
  const sent = request({
    ...{ ...listener, path, method, agent: false, rejectUnauthorized: listener.ca !== undefined },
    ...(from === undefined ? {} : { localAddress: from }),
    // Certificates of tests name no loopback address.
    ...{ servername: name, checkServerIdentity: () => undefined },
    headers: { host: name === '' ? `${listener.host}:${listener.port}` : name, ...headers },
  })
  sent.end(body)
  const [response] = await once(sent, 'response')
  return response
}

export async function ask(listener: Listener, asked: Asked): Promise<Answer> {
  const response = await open(listener, asked)
  let body = ''
  for await (const chunk of response.setEncoding('utf8')) body += chunk
  return { status: response.statusCode ?? 0, headers: response.headers, body }
}

/** A TLS connection on which bytes are sent as they are. */
export async function dialTls(listener: Listener, name: string, from?: string): Promise<TLSSocket> {
  const socket = connect({
    ...{ ...listener, rejectUnauthorized: listener.ca !== undefined, checkServerIdentity: () => undefined },
    ...(from === undefined ? {} : { localAddress: from }),
    ...(name === '' ? {} : { servername: name }),
  })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return socket
}
