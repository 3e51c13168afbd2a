/**
 * Closes connections whose client still sends. If a socket with unread bytes is closed, TCP resets the connection. The
 * client then gets a connection error instead of the response, such as a 413. So the server first closes its own side.
 * Then it reads and discards bytes, up to a limit of bytes and time.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

const maximumDelayMs = 30_000
/** The server closes the socket if the client sends nothing for this time, in ms. */
const silentMs = 1_000
const checkIntervalMs = 100

const closing = new WeakSet<Socket>()

export const isClosing = (socket: Socket): boolean => closing.has(socket)

/** Sends all written bytes, closes the server's side, and discards received bytes up to the limits. */
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
 * Delays the close of a connection whose response is sent before the request's body is received. So the client can read
 * the response.
 */
export function delayCloseAfter(request: IncomingMessage, maximumBytes: number): void {
  const { socket } = request
  if (request.complete) return
  // Node's server calls this after a connection's last response.
  socket.destroySoon = () => {
    if (request.complete) socket.end(() => socket.destroy())
    else closeDelayed(socket, maximumBytes)
  }
  request.once('end', () => {
    if (closing.has(socket)) socket.destroy()
  })
}
