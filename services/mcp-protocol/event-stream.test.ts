/** Event buffers of streams to which clients do not reconnect. */
import { expect, test } from 'vitest'
import type { AnswerStream } from '../http/message.ts'
import { EventMemory } from './event-memory.ts'
import { EventStream } from './event-stream.ts'

const thousand = 1_000
const message = (size: number, name: string): string => JSON.stringify({ mark: name, data: 'x'.repeat(size) })

/** Returns the events that a client receives when it reconnects without having seen an event. */
async function readAgain(stream: EventStream): Promise<string> {
  let text = ''
  const out: AnswerStream = {
    write: piece => {
      text += piece
      return true
    },
    allow: () => true,
    drained: () => Promise.resolve(),
  }
  void stream.attach(out, undefined, false)
  await Promise.resolve()
  stream.removeReader(out)
  return text
}

test('thousands of unread streams together stay within the memory limit, and the smallest streams keep their events', async () => {
  const memory = new EventMemory(1_000 * thousand)
  const streams = Array.from(
    { length: 2_000 },
    (_, at) => new EventStream(String(at), { events: 100, bytes: 100 * thousand, memory }, true),
  )
  const [small] = streams
  small?.send(message(10, 'small'))
  const began = performance.now()
  for (let round = 0; round < 10; round++)
    for (const stream of streams.slice(1)) stream.send(message(5 * thousand, `m${round}`))
  expect(performance.now() - began).toBeLessThan(10_000)
  const replayed = await Promise.all(streams.map(readAgain))
  const length = replayed.reduce((sum, text) => sum + text.length, 0)
  expect(length).toBeLessThanOrEqual(1_000 * thousand)
  expect(length).toBeGreaterThan(400 * thousand)
  expect(replayed[0]).toContain('small')
})

test('a discarded stream frees its memory immediately', async () => {
  const memory = new EventMemory(100 * thousand)
  const limits = { events: 100, bytes: 100 * thousand, memory }
  const [first, second] = [new EventStream('1', limits, true), new EventStream('2', limits, true)]
  for (let at = 0; at < 9; at++) first.send(message(10 * thousand, `a${at}`))
  first.discard()
  first.send(message(10 * thousand, 'late'))
  for (let at = 0; at < 9; at++) second.send(message(10 * thousand, `b${at}`))
  expect(await readAgain(first)).toBe('')
  expect(await readAgain(second)).toContain('b0')
})
