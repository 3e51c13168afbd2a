/** One stream, with a fake clock and a reader that may stop reading. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Change } from './schema.ts'
import { createEventStream, type EventStream } from './stream.ts'

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => vi.useRealTimers())

const database = (id: string, status: string): Change => ({ kind: 'database', id, database_id: id, status })
const textOf = (change: Change) => `event: change\ndata: ${JSON.stringify(change)}\n\n`
const begin = 'retry: 2000\nevent: refresh\ndata: {}\n\n'

/** The text that a client which reads everything has received since the last call. */
async function received({ readable }: EventStream): Promise<string> {
  let text = ''
  for (let chunk = readable.read(); chunk !== null; chunk = readable.read()) text += chunk
  // The stream requests more data in the next tick.
  await new Promise(resolve => setImmediate(resolve))
  return text
}

async function started(closed = () => {}): Promise<EventStream> {
  const stream = createEventStream(closed)
  expect(await received(stream)).toBe(begin)
  return stream
}

test('begins with refresh, and sends a change soon', async () => {
  const stream = await started()
  stream.send(database('a', 'creating'))
  expect(await received(stream)).toBe('')
  vi.advanceTimersByTime(50)
  expect(await received(stream)).toBe(textOf(database('a', 'creating')))
})

test('sends one event a second for an object, with its last status', async () => {
  const stream = await started()
  stream.send(database('a', 'creating'))
  vi.advanceTimersByTime(50)
  await received(stream)
  for (const status of ['modifying', 'degraded', 'available']) stream.send(database('a', status))
  stream.send(database('b', 'creating'))
  vi.advanceTimersByTime(900)
  expect(await received(stream)).toBe('')
  vi.advanceTimersByTime(100)
  expect(await received(stream)).toBe(textOf(database('a', 'available')) + textOf(database('b', 'creating')))
  vi.advanceTimersByTime(10_000)
  expect(await received(stream)).toBe('')
})

test('keeps the last change of each object for a client that does not read, and sends it later', async () => {
  const stream = createEventStream(() => {})
  const status = 'x'.repeat(20_000)
  stream.send(database('a', status))
  vi.advanceTimersByTime(50)
  for (let round = 0; round < 1000; round++) {
    stream.send(database('a', `${round}`))
    vi.advanceTimersByTime(1_000)
  }
  expect(stream.readable.readableLength).toBeLessThan(25_000)
  expect(await received(stream)).toBe(begin + textOf(database('a', status)))
  vi.advanceTimersByTime(1_000)
  expect(await received(stream)).toBe(textOf(database('a', '999')))
})

test('replaces too many waiting changes with one refresh', async () => {
  const stream = await started()
  for (let id = 0; id < 501; id++) stream.send(database(`${id}`, 'available'))
  stream.send(database('after', 'available'))
  vi.advanceTimersByTime(50)
  expect(await received(stream)).toBe('event: refresh\ndata: {}\n\n')
  stream.send(database('later', 'available'))
  vi.advanceTimersByTime(1_000)
  expect(await received(stream)).toBe(textOf(database('later', 'available')))
})

test('disconnects a client that does not read for two beats', async () => {
  const closed = vi.fn()
  const stream = await started(closed)
  stream.beat()
  expect(await received(stream)).toBe(': \n\n')
  stream.send(database('a', 'x'.repeat(20_000)))
  vi.advanceTimersByTime(50)
  stream.beat()
  expect(stream.readable.destroyed).toBe(false)
  stream.beat()
  expect(stream.readable.destroyed).toBe(true)
  await new Promise(resolve => setImmediate(resolve))
  expect(closed).toHaveBeenCalledOnce()
  stream.send(database('a', 'available'))
  stream.beat()
  vi.advanceTimersByTime(2_000)
})

test('sends nothing after its end, and a second end destroys the stream', async () => {
  const closed = vi.fn()
  const stream = await started(closed)
  stream.send(database('a', 'creating'))
  stream.end()
  stream.send(database('b', 'creating'))
  stream.beat()
  vi.advanceTimersByTime(2_000)
  expect(await received(stream)).toBe('')
  expect(vi.getTimerCount()).toBe(0)
  stream.end()
  await new Promise(resolve => setImmediate(resolve))
  expect(closed).toHaveBeenCalledOnce()
})
