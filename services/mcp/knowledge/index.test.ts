/** The knowledge base: search results on both threads, and invalid files. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { createKnowledgeBase, type KnowledgeBase } from './index.ts'
import { floats, type TestChunk, writeKnowledge } from './testing/file.ts'
import { KnowledgeError, type KnowledgeQuestion } from './types.ts'

const directory = mkdtempSync(join(tmpdir(), 'espalier-knowledge-'))
const path = join(directory, 'kb.db')
const bases: KnowledgeBase[] = []
afterAll(() => {
  for (const base of bases) base.close()
  rmSync(directory, { recursive: true })
})

const never = new AbortController().signal
const threads = { 'the main thread': Number.POSITIVE_INFINITY, 'a thread of its own': 0 }
function open(mainThreadBytes: number, at = path): KnowledgeBase {
  const base = createKnowledgeBase({ path: at, mainThreadBytes })
  bases.push(base)
  return base
}
const question = (more: Partial<KnowledgeQuestion> = {}): KnowledgeQuestion => ({
  provider: 'openai',
  vector: Float32Array.of(1, 0, 0),
  projects: [],
  versions: [],
  limit: 5,
  ...more,
})
const faultOf = async (search: Promise<unknown>) => {
  const error = await search.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  return error instanceof KnowledgeError ? error.fault : error
}

describe.each(Object.entries(threads))('on %s', (_, mainThreadBytes) => {
  const base = open(mainThreadBytes)

  test('finds exactly the nearest chunks, as a comparison with every chunk does', async () => {
    const vector = fc.array(fc.float({ min: -1, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(
        fc.array(vector, { maxLength: 30 }),
        vector,
        fc.integer({ min: 1, max: 6 }),
        async (vectors, queried, limit) => {
          writeKnowledge(
            path,
            vectors.map((one, index) => ({ text: `${index}`, vector: one })),
          )
          const found = await base.search(question({ vector: Float32Array.from(queried), limit }), never)
          const length = (one: readonly number[]) => Math.hypot(...one)
          const expected = vectors
            .map(
              one =>
                one.reduce((sum, number, at) => sum + number * (queried[at] ?? 0), 0) / (length(one) * length(queried)),
            )
            .filter(similarity => !Number.isNaN(similarity))
            .sort((one, other) => other - one)
            .slice(0, limit)
          expect(found).toHaveLength(expected.length)
          for (const [index, { similarity }] of found.entries()) expect(similarity).toBeCloseTo(expected[index] ?? 2, 4)
        },
      ),
      { numRuns: 30 },
    )
  })

  test('lists projects and versions, and restricts a search to them', async () => {
    const chunks: TestChunk[] = [
      { text: 'a', project: 'Postgres', version: '17' },
      { text: 'b', project: 'Postgres', version: '16' },
      { text: 'c', project: "O'Tool", version: '1' },
    ]
    writeKnowledge(path, chunks)
    const texts = async (more: Partial<KnowledgeQuestion>) =>
      (await base.search(question(more), never)).map(({ text }) => text)
    expect(await texts({ projects: ['Postgres'] })).toEqual(['a', 'b'])
    expect(await texts({ projects: ["O'Tool", 'Postgres'], versions: ['16', '1'] })).toEqual(['b', 'c'])
    expect(await texts({ projects: ['postgres'] })).toEqual([])
    expect(await base.products(never)).toEqual([
      { project: "O'Tool", version: '1', chunks: 1 },
      { project: 'Postgres', version: '16', chunks: 1 },
      { project: 'Postgres', version: '17', chunks: 1 },
    ])
  })

  test('detects a replaced file', async () => {
    writeKnowledge(path, [{ text: 'old', project: 'Before' }])
    expect(await base.search(question(), never)).toMatchObject([{ text: 'old' }])
    expect(await base.products(never)).toMatchObject([{ project: 'Before' }])
    writeKnowledge(path, [{ text: 'new, and longer', project: 'After' }])
    expect(await base.search(question(), never)).toMatchObject([{ text: 'new, and longer' }])
    expect(await base.products(never)).toMatchObject([{ project: 'After' }])
    rmSync(path)
    expect(await faultOf(base.search(question(), never))).toEqual({ kind: 'missing' })
    expect(await faultOf(base.products(never))).toEqual({ kind: 'missing' })
  })

  test('returns a text of several versions once', async () => {
    writeKnowledge(path, [
      ...['17', '16', '15'].map(version => ({ text: 'same', version })),
      { text: 'other', vector: [0.5, 0.5, 0] },
    ])
    expect((await base.search(question({ limit: 2 }), never)).map(({ text }) => text)).toEqual(['same', 'other'])
  })

  test('skips chunks with unusable vectors', async () => {
    const chunks = [
      { text: 'none', vector: null },
      { text: 'short', vector: [1] },
      { text: 'half', vector: new Uint8Array(7) },
      { text: 'nought', vector: [0, 0, 0] },
      { text: 'not a number', vector: floats([Number.NaN, 1, 1]) },
      { text: 'good' },
    ]
    writeKnowledge(path, chunks)
    expect(await base.search(question(), never)).toMatchObject([{ text: 'good', similarity: 1 }])
  })

  test('reports vectors of other dimensions, or of another provider', async () => {
    writeKnowledge(path, [{ text: 'a', vector: [1, 2, 3, 4] }])
    expect(await faultOf(base.search(question(), never))).toEqual({ kind: 'dimensions', stored: 4, requested: 3 })
    expect(await faultOf(base.search(question({ provider: 'voyage' }), never))).toEqual({
      kind: 'no vectors',
      provider: 'voyage',
    })
  })

  test('reports a file that is not a knowledge base, whatever it contains', async () => {
    const empty = new DatabaseSync(join(directory, 'empty.db'))
    empty.exec('CREATE TABLE IF NOT EXISTS other (x)')
    empty.close()
    const other = open(mainThreadBytes, join(directory, 'empty.db'))
    expect(await faultOf(other.search(question(), never))).toEqual({
      kind: 'invalid',
      problem: 'it has no table chunks',
    })
    const broken = open(mainThreadBytes, join(directory, 'broken.db'))
    const header = Buffer.from('SQLite format 3\0')
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.uint8Array({ minLength: 1, maxLength: 3_000 }), async (isAlike, bytes) => {
        writeFileSync(join(directory, 'broken.db'), isAlike ? Buffer.concat([header, bytes]) : bytes)
        expect(await faultOf(broken.search(question(), never))).toMatchObject({ kind: 'invalid' })
      }),
      { numRuns: 40 },
    )
  })

  test('an aborted search throws its abort reason', async () => {
    writeKnowledge(path, [{ text: 'a' }])
    await expect(base.search(question(), AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
  })
})

describe('a large file', () => {
  const large = join(directory, 'large.db')
  const base = open(1_000_000, large)

  test('delays no other request during a search', async () => {
    const dimensions = 256
    writeKnowledge(
      large,
      (function* () {
        for (let index = 0; index < 10_000; index++) {
          yield {
            text: `${index}`,
            vector: Array.from({ length: dimensions }, (_, at) => Math.sin(index * dimensions + at)),
          }
        }
      })(),
    )
    const vector = Float32Array.from({ length: dimensions }, (_, at) => Math.sin(7_777 * dimensions + at))
    let ticks = 0
    const others = setInterval(() => ticks++, 1)
    const found = await base.search(question({ vector }), never)
    clearInterval(others)
    expect(found[0]).toMatchObject({ text: '7777' })
    expect(ticks).toBeGreaterThan(3)
  })

  test('is no longer searched for aborted requests, but still for other requests', async () => {
    const vector = new Float32Array(256).fill(1)
    const leaving = new AbortController()
    const searches = Array.from({ length: 20 }, () => base.search(question({ vector }), leaving.signal))
    const stays = base.search(question({ vector }), never)
    leaving.abort(new Error('left'))
    const outcomes = await Promise.allSettled(searches)
    expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
    expect(await stays).toHaveLength(5)
  })

  test('limits concurrent searches', async () => {
    const vector = new Float32Array(256).fill(1)
    const leaving = new AbortController()
    const all = Array.from({ length: 40 }, () => faultOf(base.search(question({ vector }), leaving.signal)))
    setImmediate(() => leaving.abort())
    const faults = await Promise.all(all)
    expect(faults.filter(fault => !(fault instanceof DOMException))).toEqual(
      Array.from({ length: 8 }, () => ({ kind: 'busy' })),
    )
  })
})
