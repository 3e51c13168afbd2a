import { expect, test } from 'vitest'
import { copyMessage, type Message, messagesOf } from './messages.ts'

async function* chunksOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function all(source: AsyncIterable<Message>): Promise<Message[]> {
  const messages: Message[] = []
  // A body is valid until the next message.
  for await (const { type, body } of source) messages.push({ type, body: Buffer.from(body) })
  return messages
}

test('messages are the same for any division of the stream', async () => {
  const bodies = [0, 1, 200, 0, 70_000, 5].map((size, index) => Buffer.alloc(size, index + 1))
  const bytes = Buffer.concat(bodies.map(copyMessage))
  for (const size of [1, 2, 4, 5, 6, 7, 1000, 16_384, bytes.length]) {
    const messages = await all(messagesOf(chunksOf(bytes, size)))
    expect(messages.map(({ type }) => type)).toEqual(bodies.map(() => 'd'))
    expect(Buffer.concat(messages.map(({ body }) => body)).equals(Buffer.concat(bodies))).toBe(true)
  }
})

test('a message is delivered with its last byte, and one buffer serves all messages that arrive in several chunks', async () => {
  for (const [size, large, larger] of [
    [1, 1100, 1200],
    [1000, 70_000, 300_000],
  ] as const) {
    const bodies = [0, large, 0, larger, 9].map((length, index) => Buffer.alloc(length, index + 1))
    let delivered = 0
    const buffers = new Set<ArrayBufferLike>()
    const source = (async function* () {
      for (const [index, body] of bodies.entries()) {
        yield* chunksOf(copyMessage(body), size)
        expect(delivered).toBe(index + 1)
      }
    })()
    for await (const { body } of messagesOf(source)) {
      expect(body.equals(bodies[delivered++] ?? Buffer.of(1))).toBe(true)
      if (body.length > 1000) buffers.add(body.buffer)
    }
    // For 300,000 bytes, a larger buffer replaces the first buffer.
    expect(buffers.size).toBe(size === 1 ? 1 : 2)
  }
})

test('a stream that ends within a message is an error, and so is a message that is too large', async () => {
  const bytes = copyMessage(Buffer.alloc(1000))
  for (const length of [1, 4, 5, 999])
    await expect(all(messagesOf(chunksOf(bytes.subarray(0, length), 100)))).rejects.toThrow('within a message')
  await expect(all(messagesOf(chunksOf(copyMessage(Buffer.alloc(2 ** 20)), 100)))).rejects.toThrow(
    'invalid message, or a message above',
  )
})
