/** Tests how a base backup is divided into parts and compressed, also for an archive of an earlier version. */
import { createHash, randomBytes } from 'node:crypto'
import { zstdDecompressSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { compressed, compressedPart, plainOf, plainPart } from './compression.ts'
import { PartSender } from './parts.ts'
import type { Content } from './transport.ts'

const MiB = 1024 * 1024
/** The first half is random, the second half is compressible. */
const data = Buffer.concat([randomBytes(3 * MiB + 5), Buffer.alloc(3 * MiB, 'a row '), Buffer.from('end')])
const digestOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function gathered(chunks: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = []
  for await (const chunk of chunks) all.push(Buffer.from(chunk))
  return Buffer.concat(all)
}

test.each([
  ['compressed', compressedPart, 7],
  ['compressed', compressedPart, 32_768],
  ['compressed', compressedPart, 5 * MiB],
  ['plain', plainPart, 32_768],
] as const)('%s parts contain the bytes in order, in pieces of %s', async (_, begin, piece) => {
  const parts: Content[] = []
  const sender = new PartSender(2 * MiB, begin, async (number, content) => {
    expect(number).toBe(parts.length + 1)
    parts.push(content)
  })
  for (let at = 0; at < data.length; at += piece) await sender.add(data.subarray(at, at + piece))
  const stored = await sender.end()
  await sender.settle()
  const contents = await Promise.all(
    parts.map(async ({ chunks, compressed }) => {
      const bytes = await gathered(chunks())
      expect(bytes.length).toBe(compressed?.size ?? bytes.length)
      return compressed === undefined ? bytes : zstdDecompressSync(bytes)
    }),
  )
  expect(Buffer.concat(contents).equals(data)).toBe(true)
  expect(contents.map(({ length }) => length)).toEqual([2 * MiB, 2 * MiB, 2 * MiB, 8])
  expect(stored).toEqual(contents.map(bytes => ({ sha256: digestOf(bytes), size: bytes.length })))
  expect(sender.bytes).toBe(data.length)
})

test('if a part cannot be sent, adding data fails', async () => {
  const sender = new PartSender(MiB, compressedPart, () => Promise.reject(new Error('the archive has gone')))
  const adding = async () => {
    for (let at = 0; at < data.length; at += MiB) await sender.add(data.subarray(at, at + MiB))
  }
  await expect(adding()).rejects.toThrow('the archive has gone')
  await sender.settle()
})

test('a compressed part is decompressed for an archive that does not accept compressed content', async () => {
  const part = compressedPart()
  await part.add(data)
  const content = await part.end()
  const plain = await plainOf(content)
  expect(plain).toMatchObject({ size: data.length, sha256: content.sha256 })
  expect(plain.compressed).toBeUndefined()
  expect((await gathered(plain.chunks())).equals(data)).toBe(true)
})

test('a stream is compressed as one frame; if it fails or is not read to its end, its source is closed', async () => {
  let ended = 0
  async function* source(fails = false) {
    try {
      for (let at = 0; at < data.length; at += 100_000) yield data.subarray(at, at + 100_000)
      if (fails) throw new Error('the disk has gone')
    } finally {
      ended++
    }
  }
  expect(zstdDecompressSync(await gathered(compressed(source()))).equals(data)).toBe(true)
  await expect(gathered(compressed(source(true)))).rejects.toThrow('the disk has gone')
  for await (const _ of compressed(source())) break
  await expect.poll(() => ended).toBe(3)
})
