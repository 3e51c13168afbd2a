/** HTTPS requests of gateway tests. The sent bytes are explicit, and the complete response is read. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { request } from 'node:https'
import { connect, type TLSSocket } from 'node:tls'

/** `ca`: the authority of the listener's certificate. Without it, the certificate is not verified. */
export type Listener = { host: string; port: number; ca?: string }
export type TestRequest = {
  path: string
  /** The host name of the handshake, and of the request unless `headers.host` is set. `''` means: by address. */
  name?: string
  method?: string
  headers?: Record<string, string>
  /** If this is a list, its pieces are chunks of a body without a length. */
  body?: string | Buffer | readonly Buffer[]
  /** The address that the request comes from. */
  from?: string
}
type Answer = { status: number; headers: IncomingMessage['headers']; body: string }

/** A response whose body has not been read yet. */
export async function open(listener: Listener, options: TestRequest): Promise<IncomingMessage> {
  const { path, name = '', method = 'GET', headers = {}, body, from } = options
  const sent = request({
    ...{ ...listener, path, method, agent: false, rejectUnauthorized: listener.ca !== undefined },
    ...(from === undefined ? {} : { localAddress: from }),
    // Test certificates do not contain a loopback address.
    ...{ servername: name, checkServerIdentity: () => undefined },
    headers: { host: name === '' ? `${listener.host}:${listener.port}` : name, ...headers },
  })
  if (typeof body === 'string' || Buffer.isBuffer(body)) sent.write(body)
  else for (const piece of body ?? []) sent.write(piece)
  sent.end()
  // A client that is still sending may get an error, because its connection closes after the response.
  sent.on('error', () => {})
  const [response] = await once(sent, 'response')
  return response
}

export async function sendRequest(listener: Listener, options: TestRequest): Promise<Answer> {
  const response = await open(listener, options)
  let body = ''
  for await (const chunk of response.setEncoding('utf8')) body += chunk
  return { status: response.statusCode ?? 0, headers: response.headers, body }
}

/** A TLS connection for raw bytes. */
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

/** An HTTP/2 connection. Requests on it name `name` by default. */
export async function openHttp2(listener: Listener, name: string, from?: string): Promise<ClientHttp2Session> {
  const session = connectHttp2(`https://${name}`, {
    createConnection: () =>
      connect({
        ...{ ...listener, rejectUnauthorized: listener.ca !== undefined, checkServerIdentity: () => undefined },
        ...(from === undefined ? {} : { localAddress: from }),
        ...{ servername: name, ALPNProtocols: ['h2'] },
      }),
  })
  session.on('error', () => {})
  await once(session, 'remoteSettings')
  return session
}
