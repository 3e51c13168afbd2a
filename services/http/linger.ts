/**
 * Ends connections whose client is still sending. A socket that is closed with bytes unread is reset, and the client loses the answer that it has been sent: it is told of a broken connection, not of
 * 413. So the server ends its own side, reads on for a while and discards what comes, up to a limit of bytes and of time.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

const lingerMs = 30_000
/** A client that sends nothing for so long has had time to read its answer. */
const silentMs = 1_000
const lookMs = 100

const lingering = new WeakSet<Socket>()

export const isLingering = (socket: Socket): boolean => lingering.has(socket)

/** Once what has been written is sent. */
export function closeLingering(socket: Socket, maximumBytes: number): void {
  if (lingering.has(socket) || socket.destroyed) return
  lingering.add(socket)
  const began = performance.now()
  const from = socket.bytesRead
  let heard = { bytes: from, at: began }
  const timer = setInterval(() => {
    const now = performance.now()
    const bytes = socket.bytesRead
    if (bytes !== heard.bytes) heard = { bytes, at: now }
    const isOver = bytes - from > maximumBytes || now - began > lingerMs || now - heard.at > silentMs
    if (isOver) socket.destroy()
  }, lookMs)
  socket.once('close', () => clearInterval(timer))
  socket.end()
  socket.resume()
}

/** For a request that is answered before its body has come whole: where the answer ends the connection, the client can still read it. */
export function lingerAfter(request: IncomingMessage, maximumBytes: number): void {
  const { socket } = request
  if (request.complete) return
  // What Node's server calls once it has written the last answer of a connection.
  socket.destroySoon = () => {
    if (request.complete) socket.end(() => socket.destroy())
    else closeLingering(socket, maximumBytes)
  }
  request.once('end', () => {
    if (lingering.has(socket)) socket.destroy()
  })
}
