/**
 * A TCP proxy whose connections can fall silent, as if a network dropped all packets: nothing arrives, and nothing is
 * closed.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

type SilentProxy = {
  readonly port: number
  /** Existing connections fall silent; new ones do not. */
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
    port: (server.address() as AddressInfo).port, // of a TCP server it is one
    silence() {
      for (const socket of sockets) socket.unpipe().on('data', () => {})
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
