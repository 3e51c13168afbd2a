/** Tests when the body reader yields to the event loop. The clock is fake. */
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
  const request = Object.assign(new EventEmitter(), { headers: {}, socket }) as unknown as IncomingMessage
  const taken: number[] = []
  const into = { bufferedBytes: 0, push: (chunk: Buffer) => void taken.push(chunk.length) }
  const reservation = { grow: () => true, release: () => {}, addUpload: () => () => {} }
  const complete = readBody({
    request,
    into,
    maximumBytes: 1_000_000,
    reservation,
    disconnected: new AbortController().signal,
  })
  /** Chunks of one byte. Each chunk needs `ms` of processing. */
  const tiny = (count: number, ms: number) => {
    for (let chunk = 0; chunk < count; chunk++) {
      now += ms
      request.emit('data', Buffer.of(1))
    }
  }
  return { socket, request, taken, complete, tiny }
}

test('the reader yields after 2 ms of tiny chunks, even if it has not passed these chunks on yet', () => {
  const { socket, tiny, taken } = reading()
  tiny(128, 0.01)
  expect(socket.paused).toBe(false)
  tiny(128, 0.01)
  expect(socket.paused, '2 ms have passed').toBe(true)
  expect(taken, 'only the first chunk').toEqual([1])
})

test('after a short turn the reader yields briefly; after a long turn it pauses as long as the turn took', async () => {
  const { socket, tiny, complete, request, taken } = reading()
  tiny(256, 0.01)
  vi.advanceTimersToNextTimer()
  expect(socket.paused).toBe(false)
  tiny(256, 0.1)
  expect(socket.paused).toBe(true)
  // A paused socket still delivers bytes that it has read. These bytes belong to the turn before the pause.
  tiny(300, 0.1)
  vi.advanceTimersToNextTimer()
  expect(socket.paused).toBe(true)
  vi.advanceTimersByTime(50)
  expect(socket.paused).toBe(true)
  vi.advanceTimersByTime(10)
  expect(socket.paused).toBe(false)
  // The reader does not count the time for which it waits for the client.
  now += 5_000
  tiny(256, 0.01)
  vi.advanceTimersToNextTimer()
  expect(socket.paused).toBe(false)
  request.emit('end')
  await complete
  expect(taken.reduce((sum, bytes) => sum + bytes, 0)).toBe(1_068)
})
