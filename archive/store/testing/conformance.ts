/** The tests that every object store must pass. */
import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ArchiveError } from '../../errors.ts'
import type { ObjectStore } from '../store.ts'

async function* chunked(bytes: Uint8Array, size = 100_000) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
const bytesOf = (text: string) => chunked(Buffer.from(text))

async function gathered(source: AsyncIterable<Uint8Array> | undefined): Promise<Buffer | undefined> {
  if (source === undefined) return undefined
  const all: Uint8Array[] = []
  for await (const chunk of source) all.push(chunk)
  return Buffer.concat(all)
}
async function namesOf(store: ObjectStore, prefix: string, after?: string): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of store.list(prefix, after)) names.push(name)
  return names
}

const isSoak = process.env.ESPALIER_SOAK === '1'

/** @param open returns an empty store; the suite closes it */
export function describeObjectStore(title: string, open: () => Promise<ObjectStore>): void {
  describe(title, () => {
    let store: ObjectStore
    beforeAll(async () => {
      store = await open()
    })
    afterAll(() => store?.close())
    const text = async (name: string) => (await gathered(await store.read(name)))?.toString()

    test('an object is read as it was written, completely and partially', async () => {
      expect(await store.create('whole/one', bytesOf('0123456789'))).toBe('created')
      expect(await text('whole/one')).toBe('0123456789')
      expect((await gathered(await store.read('whole/one', { first: 2, length: 3 })))?.toString()).toBe('234')
      expect((await gathered(await store.read('whole/one', { first: 8, length: 100 })))?.toString()).toBe('89')
      const found = await store.stat('whole/one')
      expect(found).toMatchObject({ name: 'whole/one', size: 10 })
      expect(Math.abs(Number(found?.modifiedAt) - Date.now())).toBeLessThan(60_000)
    })

    test('reading a missing object returns undefined, and deleting a missing object does nothing', async () => {
      expect(await store.read('absent/one')).toBeUndefined()
      expect(await store.read('absent/one', { first: 0, length: 10 })).toBeUndefined()
      expect(await store.stat('absent/one')).toBeUndefined()
      await store.delete('absent/one')
      await store.create('absent/two', bytesOf('x'))
      await store.delete('absent/two')
      expect(await store.stat('absent/two')).toBeUndefined()
    })

    test('an existing object is not overwritten', async () => {
      expect(await store.create('kept', bytesOf('first'))).toBe('created')
      expect(await store.create('kept', bytesOf('second'))).toBe('exists')
      expect(await text('kept')).toBe('first')
    })

    test('only one of several concurrent writers of one name succeeds, if the store is conditional', async () => {
      const results = await Promise.all(
        Array.from({ length: 8 }, (_, index) => store.create('contended', bytesOf(`writer ${index}`))),
      )
      if (store.isConditional) expect(results.filter(result => result === 'created')).toHaveLength(1)
      expect(await text('contended')).toMatch(/^writer [0-7]$/)
    })

    test('an object of several parts is read unchanged, and a second object of this name is refused', async () => {
      const bytes = randomBytes(20_000_000)
      const digest = (value: Uint8Array | undefined) =>
        createHash('sha256')
          .update(value ?? '')
          .digest('hex')
      expect(await store.create('large', chunked(bytes))).toBe('created')
      expect(digest(await gathered(await store.read('large')))).toBe(digest(bytes))
      expect(await store.create('large', chunked(randomBytes(9_000_000)))).toBe('exists')
      expect(digest(await gathered(await store.read('large')))).toBe(digest(bytes))
    })

    test('an empty object can be written and read', async () => {
      expect(await store.create('empty', chunked(Buffer.alloc(0)))).toBe('created')
      expect(await store.stat('empty')).toMatchObject({ size: 0 })
      expect(await text('empty')).toBe('')
    })

    test.each([10, 20_000_000])('an object whose source fails after %i bytes does not exist', async size => {
      async function* failing() {
        yield* chunked(Buffer.alloc(size))
        throw new Error('the source failed')
      }
      await expect(store.create('failed/one', failing())).rejects.toThrow('the source failed')
      expect(await store.stat('failed/one')).toBeUndefined()
      expect(await namesOf(store, 'failed/')).toEqual([])
    })

    test('an aborted write leaves no object', async () => {
      const controller = new AbortController()
      async function* slow() {
        for (let sent = 0; sent < 200; sent++) {
          yield Buffer.alloc(200_000)
          if (sent === 100) controller.abort(new Error('the client has disconnected'))
          await new Promise(resolve => setTimeout(resolve, 1))
        }
      }
      await expect(store.create('aborted', slow(), controller.signal)).rejects.toThrow('the client has disconnected')
      expect(await store.stat('aborted')).toBeUndefined()
    })

    test('a list contains names with the prefix that are greater than `after`, sorted by bytes', async () => {
      const names = ['list/a.b', 'list/a/b', 'list/a/c', 'list/b', 'list/B', 'list/c/d/e', 'list2/a']
      for (const name of names.toReversed()) await store.create(name, bytesOf(name))
      const sorted = ['list/B', 'list/a.b', 'list/a/b', 'list/a/c', 'list/b', 'list/c/d/e']
      expect(await namesOf(store, 'list/')).toEqual(sorted)
      expect(await namesOf(store, 'list/a')).toEqual(['list/a.b', 'list/a/b', 'list/a/c'])
      expect(await namesOf(store, 'list/a/')).toEqual(['list/a/b', 'list/a/c'])
      for (const after of sorted)
        expect(await namesOf(store, 'list/', after)).toEqual(sorted.slice(sorted.indexOf(after) + 1))
      expect(await namesOf(store, 'nothing/')).toEqual([])
    })

    test('a list of more than one page contains all names', async () => {
      const names = Array.from({ length: isSoak ? 1100 : 110 }, (_, index) => `many/${String(index).padStart(5, '0')}`)
      for (let at = 0; at < names.length; at += 50)
        await Promise.all(names.slice(at, at + 50).map(name => store.create(name, bytesOf(name))))
      expect(await namesOf(store, 'many/')).toEqual(names)
      expect(await namesOf(store, 'many/', names[98])).toEqual(names.slice(99))
    })

    test.each(['', '/a', 'a/', 'a//b', 'a/../b', '.', 'a/.hidden', 'a b', 'ä', 'a\0'])(
      'the name %j is refused',
      async name => {
        await expect(async () => store.create(name, bytesOf('x'))).rejects.toThrow(RangeError)
        await expect(async () => store.read(name)).rejects.toThrow(RangeError)
      },
    )

    test('a name of more than 1,000 characters is refused', async () => {
      await expect(async () => store.read(`${'x/'.repeat(500)}x`)).rejects.toThrow(RangeError)
    })

    test('after 100 readers that stop early, the store still answers', async () => {
      await store.create('early', chunked(randomBytes(3_000_000)))
      for (let round = 0; round < 100; round++) {
        const source = await store.read('early')
        for await (const _ of source ?? []) break
      }
      expect((await store.stat('early'))?.size).toBe(3_000_000)
    })

    test('`deleteAbandonedUploads` returns 0 if the store has no incomplete uploads', async () => {
      const before = new Date(Date.now() - 3600_000)
      expect(await store.deleteAbandonedUploads('', before)).toBe(0)
    })
  })
}

/** @returns the fault of the call */
export async function faultOf(work: Promise<unknown>): Promise<ArchiveError['fault']> {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (!(error instanceof ArchiveError)) throw new Error('the call did not fail with an ArchiveError', { cause: error })
  return error.fault
}
