import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { whileRead } from './while-read.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

async function* lines() {
  for (const statement of [0, 1, 2]) yield { type: 'rows' as const, rows: [], statement }
}

test('a client that does not read a line in time is disconnected; a slow statement does not cause this', async () => {
  const unread = vi.fn()
  const texts = whileRead(lines(), 1_000, unread)
  await vi.advanceTimersByTimeAsync(5_000)
  expect((await texts.next()).value).toBe('{"type":"rows","rows":[],"statement":0}\n')
  await vi.advanceTimersByTimeAsync(999)
  expect((await texts.next()).value).toContain('"statement":1')
  await vi.advanceTimersByTimeAsync(999)
  expect(unread).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  expect(unread).toHaveBeenCalledOnce()
  await texts.return(undefined)
  await vi.advanceTimersByTimeAsync(5_000)
  expect(unread).toHaveBeenCalledOnce()
  expect(vi.getTimerCount()).toBe(0)
})
