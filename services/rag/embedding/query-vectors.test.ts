/** Query vectors: each is requested once and cached within limits. Errors are not cached. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Embedder } from '../../providers/types.ts'
import { QueryVectors } from './query-vectors.ts'

const never = new AbortController().signal

type SentText = {
  readonly text: string
  readonly signal: AbortSignal
  answer(vector: readonly number[]): void
  fail(): void
}

/** A provider whose responses each test sets. */
function scripted(maximumBytes?: number) {
  const sent: SentText[] = []
  const changes: string[] = []
  const embedder: Embedder = {
    ...{ provider: 'openai', model: 'm' },
    embed: (texts, _, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<readonly (readonly number[])[]>()
      signal.addEventListener('abort', () => reject(signal.reason))
      const [text = ''] = texts
      sent.push({ text, signal, answer: vector => resolve([vector]), fail: () => reject(new Error('down')) })
      return promise
    },
  }
  const vectors = new QueryVectors({
    embedder,
    onDimensionsChange: (before, now) => changes.push(`${before} to ${now}`),
    ...(maximumBytes !== undefined && { maximumBytes }),
  })
  const embed = async (text: string, vector: readonly number[]) => {
    const before = sent.length
    const result = vectors.embed(text, never)
    await turn()
    if (sent.length > before) sent.at(-1)?.answer(vector)
    return await result
  }
  return { vectors, sent, changes, embed }
}

test('requests concurrent equal texts once, and caches the vector', async () => {
  const { vectors, sent } = scripted()
  const all = Array.from({ length: 20 }, () => vectors.embed('cats', never))
  sent[0]?.answer([0.5, -2])
  expect((await Promise.all(all)).map(one => [...one])).toEqual(Array.from({ length: 20 }, () => [0.5, -2]))
  expect([...(await vectors.embed('cats', never))]).toEqual([0.5, -2])
  expect(sent).toHaveLength(1)
})

test('a cached vector equals the original, and callers cannot change it', async () => {
  const { vectors, embed } = scripted()
  const first = await embed('x', [0.1, 0.2])
  Object.assign(first, [9, 9])
  expect([...(await vectors.embed('x', never))]).toEqual([Math.fround(0.1), Math.fround(0.2)])
})

test('a caller that disconnects does not stop other callers; the last caller stops the request', async () => {
  const { vectors, sent } = scripted()
  const [one, other] = [new AbortController(), new AbortController()]
  const [first, second] = [vectors.embed('cats', one.signal), vectors.embed('cats', other.signal)]
  one.abort(new Error('gone'))
  await expect(first).rejects.toThrow('gone')
  expect(sent[0]?.signal.aborted).toBe(false)
  other.abort(new Error('gone too'))
  await expect(second).rejects.toThrow('gone too')
  expect(sent[0]?.signal.aborted).toBe(true)
  // A later caller starts a new request, and does not receive the error of the stopped request.
  const third = vectors.embed('cats', never)
  sent[1]?.answer([1])
  expect([...(await third)]).toEqual([1])
  await expect(vectors.embed('cats', AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
})

test('all callers of a failed request fail, and the next caller sends a new request', async () => {
  const { vectors, sent, embed } = scripted()
  const all = [vectors.embed('cats', never), vectors.embed('cats', never)]
  sent[0]?.fail()
  for (const one of all) await expect(one).rejects.toThrow('down')
  expect([...(await embed('cats', [1]))]).toEqual([1])
  expect(sent).toHaveLength(2)
})

test('limits the cache in bytes, and evicts the least recently used entry first', async () => {
  const { sent, embed } = scripted(2_000)
  for (let index = 0; index < 10; index++) {
    await embed(
      `query ${index}`,
      Array.from({ length: 25 }, () => index),
    )
    await embed('query 0', [])
  }
  expect(sent).toHaveLength(10)
  await embed('query 1', [1])
  expect(sent).toHaveLength(11)
  // A vector larger than the whole cache is returned, but not cached.
  const huge = 'x'.repeat(5_000)
  await embed(huge, [1])
  await embed(huge, [1])
  expect(sent).toHaveLength(13)
})

test('clears the cache and reports vectors of another length', async () => {
  const { sent, changes, embed } = scripted()
  await embed('a', [1, 2])
  await embed('b', [1, 2, 3])
  expect(changes).toEqual(['2 to 3'])
  expect([...(await embed('a', [4, 5, 6]))]).toEqual([4, 5, 6])
  expect(sent).toHaveLength(3)
})

test('reports numbers that pgvector cannot store as an error of the provider', async () => {
  await expect(scripted().embed('a', [1e300])).rejects.toThrow('openai sent a number that is too large for a vector')
})
