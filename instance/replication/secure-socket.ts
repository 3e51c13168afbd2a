/**
 * A TLS connection to Postgres. The client requests it in clear text, and Postgres accepts with one byte (manual, "SSL
 * Session Encryption").
 */
import { once } from 'node:events'
import { connect as connectPlainly } from 'node:net'
import { connect as connectSecurely, type TLSSocket } from 'node:tls'

type SecureServer = {
  host: string
  port: number
  /** The server name in Postgres's certificate. */
  serverName: string
  /** In PEM: the client's certificate and key, and the authorities that verify the server's certificate. */
  cert: string
  key: string
  ca: string
}

/** The SSLRequest message: length 8 and the code 80877103. */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const accepted = 0x53
const timeoutMs = 30_000

/** @throws Error if Postgres cannot be reached, does not accept TLS, or has an invalid certificate */
export async function secureSocket({ host, port, serverName, cert, key, ca }: SecureServer): Promise<TLSSocket> {
  const signal = AbortSignal.timeout(timeoutMs)
  const socket = connectPlainly({ host, port })
  try {
    await once(socket, 'connect', { signal })
    socket.write(sslRequest)
    const [answer] = await once(socket, 'data', { signal })
    // Accepts exactly one byte: unencrypted bytes that arrive with it are not from Postgres.
    if (!Buffer.isBuffer(answer) || answer.length !== 1 || answer[0] !== accepted)
      throw new Error(`Postgres at ${host}:${port} does not accept TLS`)
    const secure = connectSecurely({ socket, cert, key, ca, servername: serverName, minVersion: 'TLSv1.2' })
    await once(secure, 'secureConnect', { signal })
    return secure
  } catch (error) {
    socket.destroy()
    throw error
  }
}
