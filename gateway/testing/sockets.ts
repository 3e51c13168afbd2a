/** Shared socket helpers of gateway tests and benchmarks: separate addresses, polling, servers that clean up. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** A loopback address that another test run on this machine is unlikely to use. */
export function ownLoopback(): string {
  const byte = () => 1 + Math.floor(Math.random() * 250)
  return `127.${byte()}.${byte()}.${byte()}`
}

/** A port that was free a moment ago. */
export async function freePort(host: string): Promise<number> {
  const { server, port } = await listen(host, socket => socket.destroy())
  server.close()
  await once(server, 'close')
  return port
}

export async function listen(
  host: string,
  onConnection: (socket: Socket) => void,
  port = 0,
): Promise<{ server: Server; port: number }> {
  const server = createServer({ allowHalfOpen: true }, onConnection).listen({ port, host })
  await once(server, 'listening')
  return { server, port: (server.address() as AddressInfo).port }
}

/**
 * A port whose machine neither accepts nor refuses connections, as if it were unplugged: its queue of connections is
 * full, and its process is stopped.
 */
export async function listenInSilence(host: string): Promise<{ port: number; close(): void }> {
  const script = `require('node:net').createServer().listen({ host: '${host}', port: 0, backlog: 1 }, function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = Number(String((await once(child.stdout, 'data'))[0]))
  child.kill('SIGSTOP')
  const fillers: Socket[] = []
  // The kernel accepts connections until the queue is full. Then it drops packets without a response.
  for (let isFull = false; !isFull; ) {
    const filler = connect({ host, port })
    fillers.push(filler.on('error', () => {}))
    isFull = await Promise.race([
      once(filler, 'connect').then(() => false),
      new Promise<boolean>(resolve => setTimeout(resolve, 300, true)),
    ])
  }
  return {
    port,
    close: () => {
      child.kill('SIGKILL')
      for (const filler of fillers) filler.destroy()
    },
  }
}

/** Waits until a condition is true; fails with its name after the deadline. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = Date.now() + ms
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** Returns all data of a stream until it ends, in any way. */
export function received(stream: Duplex): Promise<Buffer> {
  const chunks: Buffer[] = []
  stream.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => {})
  return new Promise(resolve => {
    const settle = () => resolve(Buffer.concat(chunks))
    stream.once('end', settle).once('close', settle)
    if (stream.destroyed || stream.readableEnded) settle()
  })
}
