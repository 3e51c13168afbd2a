/**
 * What comes over one connection, parsed in slices. Node parses all that it has read of a socket in one go, 64 KiB at a time: ten thousand chunks of one byte, which hold
 * the thread for 60 ms. It promises that others have their turn after each slice, that a slice takes some ms however small the chunks are, and that no more is read
 * while there are slices to parse.
 */
import type { Socket } from 'node:net'

const leastBytes = 1_024
const mostBytes = 65_536
/** A slice that took longer is followed by smaller ones, one that took much less by larger ones. */
const longMs = 2
const shortMs = 0.5

type Parse = (this: Socket, bytes: Buffer) => void

const sliced = new WeakSet<Socket>()

/** From now on. A connection that is not as Node's HTTP server leaves it stays as it is. */
export function parseInSlices(socket: Socket): boolean {
  if (sliced.has(socket)) return true
  const [parse, ...others] = socket.listeners('data') as Parse[]
  if (parse === undefined || others.length > 0 || socket.isPaused()) return false
  sliced.add(socket)
  let sliceBytes = leastBytes
  let isDue = false
  const parseNext = () => {
    isDue = false
    // Without anything to read it is told that there is no more to come, where that is so.
    const slice: Buffer | null = socket.read(Math.min(sliceBytes, socket.readableLength) || undefined)
    if (slice === null || socket.destroyed) return
    const began = performance.now()
    try {
      parse.call(socket, slice)
    } catch {
      // Node takes nothing from a client that does not read its answers.
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
  // With this listener nothing is read of the socket but by parseNext: whoever resumes it, Node's request among them, makes no difference.
  socket.on('readable', parseSoon)
  return true
}
