/** Reads complete request bodies. */
import { HttpError } from './errors.ts'
import type { BodySink, IncomingBody } from './message.ts'
import { Pieces } from './pieces.ts'

class BodyBytes implements BodySink {
  readonly #pieces = new Pieces()
  readonly #maximumBytes: number

  constructor(maximumBytes: number) {
    this.#maximumBytes = maximumBytes
  }

  get bufferedBytes(): number {
    return this.#pieces.length
  }

  push(chunk: Buffer): void {
    if (this.#pieces.length + chunk.length > this.#maximumBytes) throw tooLarge(this.#maximumBytes)
    this.#pieces.add(chunk)
  }

  bytes(): Buffer {
    const bytes = this.#pieces.bytes()
    return Buffer.isBuffer(bytes) ? bytes : Buffer.concat(bytes)
  }
}

const tooLarge = (maximumBytes: number) => new HttpError({ kind: 'body too large', maximumBytes })

/**
 * @param maximumBytes a limit that is lower than the server's
 * @throws HttpError
 */
export async function readBody(body: IncomingBody, maximumBytes = Number.POSITIVE_INFINITY): Promise<Buffer> {
  if ((body.length ?? 0) > maximumBytes) throw tooLarge(maximumBytes)
  const read = new BodyBytes(maximumBytes)
  await body.read(read)
  return read.bytes()
}

/** Whether Content-Type is this type, with any parameters. */
export const isContentType = (header: string | undefined, type: string): boolean =>
  header?.split(';')[0]?.trim().toLowerCase() === type
