/**
 * Tests two servers that archive under one identity. A recovery replays the WAL of only one server, whatever
 * the order of their writes, and also if the other server archived the next segment.
 */
import { createHash, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { followsOther, saltAfter, segmentBefore } from '../instance/archive/predecessor.ts'
import { segmentName } from '../instance/archive/wal.ts'
import { SegmentChain } from '../instance/recovery/chain.ts'
import { ArchiveError } from './errors.ts'
import { tailPrefix, walPrefix } from './names.ts'
import { archiveKey } from './object/key.ts'
import { unsealed } from './object/seal.ts'
import { type Archive, putOnce } from './put.ts'
import type { ObjectStore } from './store/store.ts'
import { deleteTail, tailOf } from './tail.ts'

const segmentBytes = 16n << 20n
/** The size of a segment's content in this test; a real segment has 16 MiB. */
const contentBytes = 16
const incarnation = { databaseId: '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001', number: 1 }
const keys = { current: archiveKey(randomBytes(32)), previous: [] }
const nameOf = (index: number) => segmentName(1, BigInt(index) * segmentBytes, segmentBytes)
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()

function memoryStore(): ObjectStore {
  const objects = new Map<string, Buffer>()
  const described = (name: string, { length: size }: Buffer) => ({ name, size, modifiedAt: new Date(0) })
  return {
    location: 'memory',
    isConditional: true,
    async create(name, bytes) {
      const content = await buffer(bytes)
      if (objects.has(name)) return 'exists'
      objects.set(name, content)
      return 'created'
    },
    async read(name, range) {
      const found = objects.get(name)
      const some = range === undefined ? found : found?.subarray(range.first, range.first + range.length)
      return (
        some &&
        (async function* () {
          yield some
        })()
      )
    },
    async stat(name) {
      const found = objects.get(name)
      return found && described(name, found)
    },
    async *list(prefix, after = '') {
      for (const [name, content] of [...objects].sort())
        if (name.startsWith(prefix) && name > after) yield described(name, content)
    },
    delete: async name => void objects.delete(name),
    deleteAbandonedUploads: async () => 0,
    close: () => {},
  }
}

const whenAccepted = async (putting: Promise<unknown>): Promise<boolean> =>
  putting.then(
    () => true,
    (error: unknown) => {
      if (error instanceof ArchiveError && error.fault.kind === 'conflict') return false
      throw error
    },
  )

/** A server whose agent sends in any order, and ignores refusals. */
class Server {
  readonly segments: readonly Buffer[]
  #stream = randomBytes(8).toString('hex')
  #sent = new Map<number, number>()
  constructor(segments: readonly Buffer[]) {
    this.segments = segments
  }

  restart(): void {
    this.#stream = randomBytes(8).toString('hex')
    this.#sent = new Map()
  }

  async #put(archive: Archive, name: string, bytes: Buffer, index: number): Promise<boolean> {
    const before = this.segments[index - 1]
    const content = { sha256: sha256(bytes).toString('hex'), size: bytes.length }
    const source = (async function* () {
      yield bytes
    })()
    return whenAccepted(putOnce(archive, { name, content, source, predecessor: before && sha256(before) }))
  }

  async sendSegment(archive: Archive, index: number): Promise<void> {
    const bytes = this.segments[index] as Buffer
    if (await this.#put(archive, `${walPrefix(incarnation)}${nameOf(index)}`, bytes, index))
      await deleteTail(archive, incarnation, nameOf(index))
  }

  async sendPiece(archive: Archive, index: number, length: number): Promise<void> {
    const offset = this.#sent.get(index) ?? 0
    const bytes = (this.segments[index] as Buffer).subarray(offset, offset + length)
    if (bytes.length === 0) return
    this.#sent.set(index, offset + bytes.length)
    const hex = (value: number) => value.toString(16).toUpperCase().padStart(8, '0')
    const piece = `${nameOf(index)}.${hex(offset)}-${hex(bytes.length)}.${this.#stream}`
    await this.#put(archive, `${tailPrefix(incarnation)}${piece}`, bytes, offset === 0 ? index : 0)
  }
}

/** The WAL that Postgres receives, selected in the same way as in `instance/recovery/wal.ts`. */
async function recovered(archive: Archive): Promise<Buffer> {
  const chain = new SegmentChain()
  const replayed: Buffer[] = []
  for (let index = 0; ; index++) {
    const name = `${walPrefix(incarnation)}${nameOf(index)}`
    const stored = await archive.store.read(name)
    if (stored !== undefined) {
      const { header, content } = await unsealed(stored, { name, keys })
      const bytes = await buffer(content)
      if (chain.accepts(nameOf(index), { sha256: sha256(bytes), salt: Buffer.from(header.salt, 'base64') })) {
        replayed.push(bytes)
        continue
      }
    }
    const tail = await buffer((await tailOf(archive, incarnation, nameOf(index), chain.before(nameOf(index)))).read())
    replayed.push(tail)
    if (tail.length < contentBytes) return Buffer.concat(replayed)
    chain.add(nameOf(index), sha256(tail))
  }
}

const count = 5
const action = fc.record({
  of: fc.constantFrom(0, 1),
  does: fc.constantFrom('segment', 'segment', 'piece', 'piece', 'piece', 'restart'),
  index: fc.nat({ max: count - 1 }),
  length: fc.constantFrom(1, 4, contentBytes),
})

test('a recovery replays the WAL of only one of two servers', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: 3 }), fc.array(action, { minLength: 8, maxLength: 30 }), async (fork, actions) => {
      const archive = { store: memoryStore(), keys }
      const common = Array.from({ length: fork }, () => randomBytes(contentBytes))
      const history = () => [...common, ...Array.from({ length: count - fork }, () => randomBytes(contentBytes))]
      const servers = [new Server(history()), new Server(history())]
      for (const { of, does, index, length } of actions) {
        const server = servers[of] as Server
        if (does === 'restart') server.restart()
        else if (does === 'segment') await server.sendSegment(archive, index)
        else await server.sendPiece(archive, index, length)
      }
      const wal = await recovered(archive)
      const whose = servers.filter(({ segments }) => Buffer.concat(segments).subarray(0, wal.length).equals(wal))
      expect(whose, 'servers that wrote the recovered WAL').not.toEqual([])
    }),
    { numRuns: process.env.ESPALIER_SOAK === '1' ? 1000 : 20 },
  )
})

test("a salt derived from the previous segment identifies that segment's content; a random salt does not", () => {
  const [own, other] = [sha256(Buffer.from('ours')), sha256(Buffer.from('other'))]
  const salt = saltAfter(own)
  expect([followsOther(salt, own), followsOther(salt, other)]).toEqual([false, true])
  expect(saltAfter(own).equals(salt)).toBe(false)
  for (const random of [randomBytes(32), Buffer.alloc(0)]) expect(followsOther(random, other)).toBe(false)
})

test('the previous segment is on the same timeline; the first segment has no previous segment', () => {
  expect(segmentBefore('000000020000000100000000', segmentBytes)).toBe('0000000200000000000000FF')
  expect(segmentBefore('000000020000000000000000', segmentBytes)).toBeUndefined()
})
