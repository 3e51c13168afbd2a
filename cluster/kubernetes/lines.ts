/** Splits a stream of chunks into lines. Chunks may be split anywhere, also within a character. */
import { ClusterError } from '../errors.ts'

const newline = 0x0a

/**
 * Yields every line that ends with a newline, without the newline. Text after the last newline is incomplete and
 * dropped.
 * @throws ClusterError `Unavailable` for a line above `maxBytes`, or bytes that are not UTF-8
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let pending: Buffer[] = []
  let size = 0
  const take = (part: Buffer): void => {
    size += part.length
    if (size > maxBytes)
      throw new ClusterError('Unavailable', `the API server sent a line of more than ${maxBytes} bytes`)
    pending.push(part)
  }
  const line = (): string => {
    const bytes = Buffer.concat(pending, size)
    pending = []
    size = 0
    try {
      return decoder.decode(bytes)
    } catch (error) {
      throw new ClusterError('Unavailable', 'the API server sent bytes that are not UTF-8', { cause: error })
    }
  }
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      take(chunk.subarray(start, end))
      start = end + 1
      yield line()
    }
    if (start < chunk.length) take(chunk.subarray(start))
  }
}
