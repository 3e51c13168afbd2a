/**
 * One admitted connection: waits until the client sends data, connects to the target, and joins the two byte for byte.
 * TLS is forwarded unchanged. Backpressure and half-close are forwarded between the sides.
 */
import { connect, type Socket } from 'node:net'

/** After this time without traffic, the kernel probes the peer, so that a lost peer is detected. */
export const keepAliveMs = 60_000

/**
 * Resolves to true once the client has sent data, which stay unread. Resolves to false if it closes, or sends nothing
 * in time. The gateway does not connect to the target earlier, because each connection costs the target a process.
 */
export function untilFirstBytes(client: Socket, deadlineMs: number): Promise<boolean> {
  return new Promise(resolve => {
    const settle = () => {
      clearTimeout(timer)
      client.off('readable', settle).off('close', settle)
      resolve(!client.destroyed && client.readableLength > 0)
    }
    const timer = setTimeout(settle, deadlineMs)
    client.on('readable', settle).on('close', settle)
  })
}

/** Connects to the target. Returns undefined if it refuses, or does not respond in time. */
export function connectTarget(
  address: { host: string; port: number },
  deadlineMs: number,
): Promise<Socket | undefined> {
  return new Promise(resolve => {
    const target = connect({
      ...address,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveMs,
    })
    const settle = (connected: boolean) => {
      clearTimeout(timer)
      target.off('connect', onConnect).off('close', onClose)
      if (!connected) target.destroy()
      resolve(connected ? target : undefined)
    }
    const onConnect = () => settle(true)
    const onClose = () => settle(false)
    const timer = setTimeout(() => settle(false), deadlineMs)
    // A 'close' event always follows an error, here and once joined.
    target.on('connect', onConnect).on('close', onClose).on('error', ignore)
  })
}

const ignore = () => {}

/**
 * Joins two connected sockets. When one side has ended, its last data are delivered. The other side may keep its half
 * only while it reads or writes something every `halfOpenMs`, so that neither side stays half open forever.
 */
export function join(client: Socket, target: Socket, halfOpenMs: number): void {
  client.pipe(target)
  target.pipe(client)
  const finish = (socket: Socket) => {
    socket.end()
    if (!socket.destroyed) socket.setTimeout(halfOpenMs, () => socket.destroy())
  }
  target.once('end', () => finish(client))
  target.once('close', () => finish(client))
  // A client that only half-closes may wait long for the rest of a response. A client that has disconnected does not
  // wait.
  client.once('close', failed => {
    if (failed) target.destroy()
    else finish(target)
  })
  if (client.destroyed) target.destroy()
}
