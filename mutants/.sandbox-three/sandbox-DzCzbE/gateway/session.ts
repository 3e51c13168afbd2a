/**
 * One admitted connection: waits until the client says something, connects to the target, and joins the two byte for
 * byte. TLS goes through untouched. Back-pressure and half-close pass from one side to the other.
 */
// @ts-nocheck

import { connect, type Socket } from 'node:net'

/** After so long without traffic the kernel probes the peer, so that one that vanished is noticed. */
export const keepAliveMs = 60_000

/**
 * Resolves once the client has sent something, which stays unread; false where it closes, or says nothing in time.
 * A target is not troubled before: each connection costs it a process.
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

/** A connection to the target; undefined where it refuses, or does not answer in time. */
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
    // An error is always followed by 'close', here and once joined.
    target.on('connect', onConnect).on('close', onClose).on('error', ignore)
  })
}

const ignore = () => {}

/**
 * Joins two connected sockets. When one side is over, what it said last is delivered, and the other may keep its half
 * only while it reads or writes something every `lingerMs`: neither is left half open for ever.
 */
export function join(client: Socket, target: Socket, lingerMs: number): void {
  client.pipe(target)
  target.pipe(client)
  const finish = (socket: Socket) => {
    socket.end()
    if (!socket.destroyed) socket.setTimeout(lingerMs, () => socket.destroy())
  }
  target.once('end', () => finish(client))
  target.once('close', () => finish(client))
  // A client that only half-closes may wait long for the rest of an answer; one that is gone waits for nothing.
  client.once('close', failed => {
    if (failed) target.destroy()
    else finish(target)
  })
  if (client.destroyed) target.destroy()
}
