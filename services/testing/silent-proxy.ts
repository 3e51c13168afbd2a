/**
 * A TCP proxy whose connections can become silent, as if a network dropped all packets: no bytes arrive, and no
 * connection is closed.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

type SilentProxy = {
  readonly port: number
  /** Existing connections become silent. New connections do not. */
  silence(): void
  stop(): Promise<void>
}

export async function startSilentProxy(port: number): Promise<SilentProxy> {
  const sockets = new Set<Socket>()
  const opened = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    return socket
  }
  const server = createServer(inward => {
    opened(inward)
    const outward = opened(connect(port, '127.0.0.1'))
    inward.pipe(outward).pipe(inward)
  }).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  return {
    port: (server.address() as AddressInfo).port, // The address of a TCP server is an AddressInfo.
    silence() {
      for (const socket of sockets) socket.unpipe().on('data', () => {})
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
