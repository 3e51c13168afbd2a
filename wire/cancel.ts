/**
 * Cancels the running query over a separate connection (Postgres manual section 55.2.8). A late request has no effect.
 * Errors are not reported.
 */
import { connect as connectSocket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'

/** The server and the backend process to cancel. */
export type Backend = {
  processID: number
  secretKey: number | Buffer
  host: string
  port: number
  ssl: ConnectionOptions | false
}

const longestMs = 5_000

export function cancel({ processID, secretKey, host, port, ssl }: Backend): void {
  const key = Buffer.isBuffer(secretKey) ? secretKey : Buffer.alloc(4)
  if (typeof secretKey === 'number') key.writeInt32BE(secretKey | 0)
  const request = Buffer.alloc(12 + key.length)
  request.writeInt32BE(request.length, 0)
  request.writeInt32BE(80877102, 4)
  request.writeInt32BE(processID, 8)
  key.copy(request, 12)
  const isPath = host.startsWith('/')
  const socket = isPath ? connectSocket({ path: `${host}/.s.PGSQL.${port}` }) : connectSocket({ host, port })
  socket.setTimeout(longestMs, () => socket.destroy())
  socket.on('error', () => {})
  if (ssl === false) {
    socket.end(request)
    return
  }
  // The cancel key is sent only to the server. Its certificate is verified like that of the connection.
  const encryption = Buffer.alloc(8)
  encryption.writeInt32BE(8, 0)
  encryption.writeInt32BE(80877103, 4)
  socket.write(encryption)
  socket.once('data', answer => {
    if (answer[0] !== 0x53) {
      socket.destroy()
      return
    }
    const secure = connectTls({ ...ssl, socket })
    secure.on('error', () => {})
    secure.end(request)
  })
}
