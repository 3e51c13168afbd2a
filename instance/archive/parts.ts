/** Divides Postgres's base backup into parts. */
import type { Part } from './compression.ts'
import type { Content } from './transport.ts'

/** Size of the blocks to compress. The size of a part is a multiple of it. */
const blockBytes = 1024 * 1024

/** A part in a backup's record: SHA-256 in hexadecimal digits, and size in bytes. */
export type Stored = { sha256: string; size: number }
export const storedOf = ({ sha256, size }: Content): Stored => ({ sha256: sha256.toString('hex'), size })

/**
 * Divides a stream of bytes into parts. While one part is sent, the next part is compressed. `add` waits if the next
 * part is full too, so Postgres waits.
 */
export class PartSender {
  readonly #begin: () => Part
  readonly #send: (number: number, content: Content) => Promise<unknown>
  readonly #blocks = [Buffer.allocUnsafeSlow(blockBytes), Buffer.allocUnsafeSlow(blockBytes)]
  readonly #partBytes: number
  readonly #stored: Stored[] = []
  #part: Part
  #filled = 0
  #sending: Promise<unknown> = Promise.resolve()
  bytes = 0

  /** @param send sends a part; numbers start at 1. The next part is sent once the promise resolves */
  constructor(partBytes: number, begin: () => Part, send: (number: number, content: Content) => Promise<unknown>) {
    this.#partBytes = partBytes
    this.#begin = begin
    this.#part = begin()
    this.#send = send
  }

  /** @returns whether a part was completed */
  async add(chunk: Buffer): Promise<boolean> {
    let isFull = false
    for (let rest = chunk; rest.length > 0; ) {
      const some = rest.subarray(0, blockBytes - this.#filled)
      some.copy(this.#blocks[0] as Buffer, this.#filled) // there are two
      this.#filled += some.length
      this.bytes += some.length
      rest = rest.subarray(some.length)
      if (this.#filled < blockBytes) continue
      await this.#addBlock()
      if (this.#part.size < this.#partBytes) continue
      await this.#flush()
      isFull = true
    }
    return isFull
  }

  /** Resolves to all parts once they are stored. */
  async end(): Promise<Stored[]> {
    await this.#addBlock()
    if (this.#part.size > 0) await this.#flush()
    await this.#sending
    return this.#stored
  }

  async settle(): Promise<void> {
    this.#part.drop()
    await this.#sending.catch(() => {})
  }

  async #addBlock(): Promise<void> {
    const block = (this.#blocks[0] as Buffer).subarray(0, this.#filled)
    this.#filled = 0
    this.#blocks.reverse()
    if (block.length > 0) await this.#part.add(block)
  }

  async #flush(): Promise<void> {
    const content = await this.#part.end()
    this.#part = this.#begin()
    await this.#sending
    this.#stored.push(storedOf(content))
    this.#sending = this.#send(this.#stored.length, content)
    // Awaited with the next part or at the end. A rejection before that would have no handler: Node would end the
    // process.
    this.#sending.catch(() => {})
  }
}
