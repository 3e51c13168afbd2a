import { createHash, randomBytes } from 'node:crypto'
import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ArchiveError } from '../errors.ts'
import { unsealedComplete } from './complete.ts'
import { archiveKey } from './key.ts'
import { authenticated, sealed, unsealed } from './seal.ts'

const keys = { current: archiveKey(Buffer.alloc(32, 1)), previous: [] }
const name = 'an-id/1/wal/000000010000000000000001'

async function* chunks(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
async function gathered(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = []
  for await (const chunk of source) all.push(chunk)
  return Buffer.concat(all)
}
const contentOf = (bytes: Uint8Array) => ({
  sha256: createHash('sha256').update(bytes).digest('hex'),
  size: bytes.length,
})
const seal = (bytes: Uint8Array, chunk = 65_536, content?: ReturnType<typeof contentOf>) =>
  gathered(sealed(chunks(bytes, chunk), { name, keys, ...(content === undefined ? {} : { content }) }))
const open = async (object: Uint8Array, as = name, by: Parameters<typeof unsealed>[1]['keys'] = keys) => {
  const { content } = await unsealed(chunks(object, 50_000), { name: as, keys: by })
  return gathered(content)
}

test('an object returns its original content, for any chunk size and content size', async () => {
  const sizes = fc.oneof(
    fc.integer({ min: 0, max: 5000 }),
    fc.constantFrom(262_143, 262_144, 262_145, 524_288, 2 ** 20, 3e6),
  )
  await fc.assert(
    fc.asyncProperty(sizes, fc.integer({ min: 1, max: 300_000 }), fc.boolean(), async (size, chunk, isKnown) => {
      const bytes = randomBytes(size)
      const object = await seal(bytes, Math.max(chunk, Math.ceil(size / 100)), isKnown ? contentOf(bytes) : undefined)
      expect((await open(object)).equals(bytes)).toBe(true)
      expect(await authenticated(chunks(object, 50_000), { name, keys })).toMatchObject({ name })
    }),
    { numRuns: 60 },
  )
})

test('an object is refused if any bit was changed, or if it is truncated', async () => {
  const bytes = randomBytes(600_000)
  const content = contentOf(bytes)
  const object = await seal(bytes, undefined, content)
  const as = { name, keys }
  const refused = async (changed: Uint8Array) => {
    for (const read of [
      () => open(changed),
      () => authenticated(chunks(changed, 50_000), as),
      () => unsealedComplete(chunks(changed, 50_000), as, content),
    ]) {
      const error = await read().then(
        () => undefined,
        (error: unknown) => error,
      )
      expect(error).toBeInstanceOf(ArchiveError)
      expect((error as ArchiveError).message).toContain(name)
      expect((error as ArchiveError).fault.kind).toMatch(/^(damaged|unknown key)$/)
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: object.length - 1 }), fc.integer({ min: 0, max: 7 }), (at, bit) => {
      const changed = Buffer.from(object)
      changed[at] = (changed[at] ?? 0) ^ (1 << bit)
      return refused(changed)
    }),
    { numRuns: 60 },
  )
  const frame = 262_144 + 16
  const header = object.length - (2 * frame + (object.length % frame))
  const ends = [0, 5, 11, 100, header, header + frame, header + 2 * frame, object.length - 1]
  for (const end of [...ends, ...Array.from({ length: 20 }, () => Math.floor(Math.random() * object.length))])
    await refused(object.subarray(0, Math.max(0, end)))
  await refused(Buffer.concat([object, Buffer.alloc(1)]))
})

test('an object is read into one buffer, and refused if it does not have the expected content', async () => {
  for (const size of [0, 1, 262_144, 3_000_000]) {
    const bytes = randomBytes(size)
    const object = await seal(bytes, undefined, contentOf(bytes))
    const read = (content: ReturnType<typeof contentOf>) =>
      unsealedComplete(chunks(object, 50_000), { name, keys }, content)
    expect((await read(contentOf(bytes))).equals(bytes)).toBe(true)
    await expect(read({ ...contentOf(bytes), size: size + 1 })).rejects.toThrow(`${name}: the object is damaged`)
    await expect(read(contentOf(randomBytes(size + 1)))).rejects.toThrow('its content differs from the SHA-256')
  }
})

test('an object whose content is longer or shorter than its header states is refused', async () => {
  const bytes = randomBytes(100_000)
  for (const size of [99_999, 100_001]) {
    const content = { ...contentOf(bytes), size }
    const sealing = sealed(chunks(zstdCompressSync(bytes), 50_000), {
      ...{ name, keys, content, isVerified: true, isCompressed: true },
    })
    const object = await gathered(sealing)
    await expect(unsealedComplete(chunks(object, 50_000), { name, keys }, content)).rejects.toThrow(
      `${name}: the object is damaged`,
    )
    await expect(open(object)).rejects.toThrow(`${name}: the object is damaged`)
  }
})

test('frames cannot be exchanged, repeated or omitted', async () => {
  const object = await seal(randomBytes(1_000_000))
  const frame = 262_144 + 16
  const length = Buffer.from(object).readUInt32BE(8) + 12 + 32
  const frames = Array.from({ length: 4 }, (_, index) =>
    object.subarray(length + index * frame, length + (index + 1) * frame),
  )
  const [first, second, third, last] = frames
  const orders = [
    [second, first, third, last],
    [first, first, second, third, last],
    [first, third, last],
    [first, second, last],
  ]
  for (const order of orders) {
    const changed = Buffer.concat([object.subarray(0, length), ...order.map(one => one ?? Buffer.alloc(0))])
    await expect(open(changed)).rejects.toThrow(/damaged/)
  }
})

test('an object that was moved to another name is refused; the error has both names', async () => {
  const object = await seal(Buffer.from('WAL'))
  await expect(open(object, 'other/1/wal/000000010000000000000001')).rejects.toThrow(
    `other/1/wal/000000010000000000000001: the object is damaged: it was archived as ${name}`,
  )
})

test("an object is readable with a previous key; without that key, the error names the key's id", async () => {
  const object = await seal(Buffer.from('WAL'))
  const current = archiveKey(Buffer.alloc(32, 2))
  expect((await open(object, name, { current, previous: [keys.current] })).toString()).toBe('WAL')
  await expect(open(object, name, { current, previous: [] })).rejects.toThrow(
    `encrypted with the key ${keys.current.id}, which is not configured`,
  )
})

test('a source that does not have the stated digest and size is refused', async () => {
  const bytes = Buffer.from('some WAL')
  await expect(seal(bytes, 3, { ...contentOf(bytes), size: 7 })).rejects.toThrow('it has more than 7 bytes')
  await expect(seal(bytes, 3, { ...contentOf(bytes), size: 9 })).rejects.toThrow('it has 8 bytes, not 9')
  await expect(seal(bytes, 3, contentOf(Buffer.from('othe WAL')))).rejects.toThrow('its SHA-256 is')
})

test('a reader that stops early closes the source', async () => {
  let ended = false
  async function* source() {
    try {
      for (;;) yield randomBytes(100_000)
    } finally {
      ended = true
    }
  }
  for await (const _ of sealed(source(), { name, keys })) break
  await new Promise(resolve => setTimeout(resolve, 50))
  for await (const chunk of sealed(source(), { name, keys })) if (chunk.length > 100_000) break
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(ended).toBe(true)
})

test('an object whose content is not valid zstd is damaged, and the error names the object', async () => {
  const bytes = randomBytes(1000)
  const stored = { name, keys, content: contentOf(bytes), isVerified: true, isCompressed: true }
  for (const body of [bytes, zstdCompressSync(bytes).subarray(0, 500)]) {
    const object = await gathered(sealed(chunks(body, 1000), stored))
    await expect(open(object)).rejects.toThrow(`${name}: the object is damaged: it is not valid zstd`)
  }
})
