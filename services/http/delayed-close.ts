/**
 * Closes connections whose client is still sending. Closing a socket with unread bytes resets it, and the client loses
 * the response: it sees a broken connection instead of a 413. So the server closes its own side first, then reads and
 * discards up to a limit of bytes and time.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

const maximumDelayMs = 30_000
/** A client that has sent nothing for this long has had time to read the response. */
const silentMs = 1_000
const checkIntervalMs = 100

const closing = new WeakSet<Socket>()

export const isClosing = (socket: Socket): boolean => closing.has(socket)

/** After all written bytes have been sent. */
export function closeDelayed(socket: Socket, maximumBytes: number): void {
  if (closing.has(socket) || socket.destroyed) return
  closing.add(socket)
  const began = performance.now()
  const from = socket.bytesRead
  let received = { bytes: from, at: began }
  const timer = setInterval(() => {
    const now = performance.now()
    const bytes = socket.bytesRead
    if (bytes !== received.bytes) received = { bytes, at: now }
    const isOver = bytes - from > maximumBytes || now - began > maximumDelayMs || now - received.at > silentMs
    if (isOver) socket.destroy()
  }, checkIntervalMs)
  socket.once('close', () => clearInterval(timer))
  socket.end()
  socket.resume()
}

/**
 * For a request that is answered before its body has been received: if the response closes the connection, the client
 * can still read the response.
 */
export function delayCloseAfter(request: IncomingMessage, maximumBytes: number): void {
  const { socket } = request
  if (request.complete) return
  // Node's server calls this after the last response of a connection.
  socket.destroySoon = () => {
    if (request.complete) socket.end(() => socket.destroy())
    else closeDelayed(socket, maximumBytes)
  }
  request.once('end', () => {
    if (closing.has(socket)) socket.destroy()
  })
}
