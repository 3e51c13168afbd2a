/**
 * Parses the bytes of a connection in slices. By default, Node parses all bytes of a read from a socket (up to 64 KiB)
 * without a pause. Without slices, ten thousand one-byte chunks block the thread for 60 ms. With slices, the server
 * serves other connections after each slice. A slice takes a few ms for chunks of any size. Node reads no more from the
 * socket while the buffer of the socket is full.
 */
import type { Socket } from 'node:net'

const leastBytes = 1_024
const mostBytes = 65_536
/** If parsing a slice takes longer than `longMs`, the next slices are smaller; below `shortMs`, they are larger. */
const longMs = 2
const shortMs = 0.5

type Parse = (this: Socket, bytes: Buffer) => void

const sliced = new WeakSet<Socket>()

/** Starts slicing. Returns false if the socket is paused, or if any code except Node's HTTP parser reads its data. */
export function parseInSlices(socket: Socket): boolean {
  if (sliced.has(socket)) return true
  const [parse, ...others] = socket.listeners('data') as Parse[]
  if (parse === undefined || others.length > 0 || socket.isPaused()) return false
  sliced.add(socket)
  let sliceBytes = leastBytes
  let isDue = false
  const parseNext = () => {
    isDue = false
    // If no bytes are left and the connection has ended, `read` emits `end`. Node then ends its parser.
    const slice: Buffer | null = socket.read(Math.min(sliceBytes, socket.readableLength) || undefined)
    if (slice === null || socket.destroyed) return
    const began = performance.now()
    try {
      parse.call(socket, slice)
    } catch {
      // If a client does not read its responses, Node pauses the socket, and `parse` throws.
      socket.destroy()
      return
    }
    const took = performance.now() - began
    if (took > longMs) sliceBytes = Math.max(leastBytes, sliceBytes / 2)
    if (took < shortMs) sliceBytes = Math.min(mostBytes, sliceBytes * 2)
    parseSoon()
  }
  const parseSoon = () => {
    if (isDue) return
    isDue = true
    setImmediate(parseNext)
  }
  socket.off('data', parse)
  // With this listener, only parseNext reads from the socket. Other code, such as Node's request, cannot resume the
  // socket.
  socket.on('readable', parseSoon)
  return true
}
