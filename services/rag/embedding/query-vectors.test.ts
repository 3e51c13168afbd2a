/** Vectors of queries: asked once, kept within bounds, and never an error for long. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Embedder } from '../../providers/types.ts'
import { QueryVectors } from './query-vectors.ts'

const never = new AbortController().signal

type Asked = {
  readonly text: string
  readonly signal: AbortSignal
  answer(vector: readonly number[]): void
  fail(): void
}

/** A provider whose answers the test gives. */
function scripted(maximumBytes?: number) {
  const asked: Asked[] = []
  const changes: string[] = []
  const embedder: Embedder = {
    ...{ provider: 'openai', model: 'm' },
    embed: (texts, _, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<readonly (readonly number[])[]>()
      signal.addEventListener('abort', () => reject(signal.reason))
      const [text = ''] = texts
      asked.push({ text, signal, answer: vector => resolve([vector]), fail: () => reject(new Error('down')) })
      return promise
    },
  }
  const vectors = new QueryVectors({
    embedder,
    onDimensionsChange: (before, now) => changes.push(`${before} to ${now}`),
    ...(maximumBytes !== undefined && { maximumBytes }),
  })
  const embed = async (text: string, vector: readonly number[]) => {
    const before = asked.length
    const result = vectors.embed(text, never)
    await turn()
    if (asked.length > before) asked.at(-1)?.answer(vector)
    return await result
  }
  return { vectors, asked, changes, embed }
}

test('equal texts at once are asked once, and kept', async () => {
  const { vectors, asked } = scripted()
  const all = Array.from({ length: 20 }, () => vectors.embed('cats', never))
  asked[0]?.answer([0.5, -2])
  expect((await Promise.all(all)).map(one => [...one])).toEqual(Array.from({ length: 20 }, () => [0.5, -2]))
  expect([...(await vectors.embed('cats', never))]).toEqual([0.5, -2])
  expect(asked).toHaveLength(1)
})

test('a kept vector is the same as the one before it was kept, and nobody can change it', async () => {
  const { vectors, embed } = scripted()
  const first = await embed('x', [0.1, 0.2])
  Object.assign(first, [9, 9])
  expect([...(await vectors.embed('x', never))]).toEqual([Math.fround(0.1), Math.fround(0.2)])
})

test('a caller that goes stops no other, and the last that goes stops the request', async () => {
  const { vectors, asked } = scripted()
  const [one, other] = [new AbortController(), new AbortController()]
  const [first, second] = [vectors.embed('cats', one.signal), vectors.embed('cats', other.signal)]
  one.abort(new Error('gone'))
  await expect(first).rejects.toThrow('gone')
  expect(asked[0]?.signal.aborted).toBe(false)
  other.abort(new Error('gone too'))
  await expect(second).rejects.toThrow('gone too')
  expect(asked[0]?.signal.aborted).toBe(true)
  // Who comes after asks anew, and is not told of the stopped request.
  const third = vectors.embed('cats', never)
  asked[1]?.answer([1])
  expect([...(await third)]).toEqual([1])
  await expect(vectors.embed('cats', AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
})

test('all that wait for a failed request fail, and the next asks again', async () => {
  const { vectors, asked, embed } = scripted()
  const all = [vectors.embed('cats', never), vectors.embed('cats', never)]
  asked[0]?.fail()
  for (const one of all) await expect(one).rejects.toThrow('down')
  expect([...(await embed('cats', [1]))]).toEqual([1])
  expect(asked).toHaveLength(2)
})

test('what is kept is bounded in bytes, and what was unused for longest goes first', async () => {
  const { asked, embed } = scripted(2_000)
  for (let index = 0; index < 10; index++) {
    await embed(
      `query ${index}`,
      Array.from({ length: 25 }, () => index),
    )
    await embed('query 0', [])
  }
  expect(asked).toHaveLength(10)
  await embed('query 1', [1])
  expect(asked).toHaveLength(11)
  // Larger than the whole cache: answered, not kept.
  const huge = 'x'.repeat(5_000)
  await embed(huge, [1])
  await embed(huge, [1])
  expect(asked).toHaveLength(13)
})

test('vectors of another length clear what is kept and are reported', async () => {
  const { asked, changes, embed } = scripted()
  await embed('a', [1, 2])
  await embed('b', [1, 2, 3])
  expect(changes).toEqual(['2 to 3'])
  expect([...(await embed('a', [4, 5, 6]))]).toEqual([4, 5, 6])
  expect(asked).toHaveLength(3)
})

test('numbers that pgvector could not keep are an error of the provider', async () => {
  await expect(scripted().embed('a', [1e300])).rejects.toThrow('openai sent a number that is too large for a vector')
})
