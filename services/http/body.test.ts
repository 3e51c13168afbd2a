/** When the reader of a body gives way, by a clock of the test's. */
import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { readBody } from './body.ts'

let now = 0
beforeEach(() => {
  now = 0
  vi.useFakeTimers({ toFake: ['setTimeout', 'setImmediate'] })
  vi.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

function reading() {
  const socket = {
    paused: false,
    pause: () => {
      socket.paused = true
    },
    resume: () => {
      socket.paused = false
    },
    isPaused: () => socket.paused,
  }
  // Of a request as much as is looked at.
  const request = Object.assign(new EventEmitter(), { headers: {}, socket }) as unknown as IncomingMessage
  const taken: number[] = []
  const into = { held: 0, push: (chunk: Buffer) => void taken.push(chunk.length) }
  const reservation = { grow: () => true, release: () => {}, coming: () => () => {} }
  const whole = readBody({ request, into, maximumBytes: 1_000_000, reservation, gone: new AbortController().signal })
  /** So many chunks of a byte, each of which takes so long. */
  const tiny = (count: number, ms: number) => {
    for (let chunk = 0; chunk < count; chunk++) {
      now += ms
      request.emit('data', Buffer.of(1))
    }
  }
  return { socket, request, taken, whole, tiny }
}

test('tiny chunks that take long give way before they are handed on', () => {
  const { socket, tiny, taken } = reading()
  tiny(128, 0.01)
  expect(socket.paused).toBe(false)
  tiny(128, 0.01)
  expect(socket.paused, '2 ms are over').toBe(true)
  expect(taken, 'the first one alone').toEqual([1])
})

test('after a short turn others have one, after a long one as much time as it took', async () => {
  const { socket, tiny, whole, request, taken } = reading()
  tiny(256, 0.01)
  vi.advanceTimersToNextTimer()
  expect(socket.paused).toBe(false)
  tiny(256, 0.1)
  expect(socket.paused).toBe(true)
  // What had been read already comes all the same, and belongs to the turn.
  tiny(300, 0.1)
  vi.advanceTimersToNextTimer()
  expect(socket.paused).toBe(true)
  vi.advanceTimersByTime(50)
  expect(socket.paused).toBe(true)
  vi.advanceTimersByTime(10)
  expect(socket.paused).toBe(false)
  // However slowly the rest comes, that is not time of others.
  now += 5_000
  tiny(256, 0.01)
  vi.advanceTimersToNextTimer()
  expect(socket.paused).toBe(false)
  request.emit('end')
  await whole
  expect(taken.reduce((sum, bytes) => sum + bytes, 0)).toBe(1_068)
})
