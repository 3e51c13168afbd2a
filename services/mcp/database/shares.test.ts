/** Shares of a pool: no caller blocks another caller's statements, and no caller waits forever. */
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { AcquisitionTimeout } from '../../postgres/errors.ts'
import { anyone } from '../core/caller.ts'
import { createShares, ownerOf } from './shares.ts'

const never = new AbortController().signal
/** The current state of a promise. */
const stateOf = async <T>(promise: Promise<T>): Promise<T | 'waiting'> => {
  for (let turn = 0; turn < 5; turn++) await null
  return Promise.race([promise, Promise.resolve('waiting' as const)])
}

test('one caller can take half of the slots, and the next caller gets a slot immediately', async () => {
  const shares = createShares(4, 1_000)
  const slow = Array.from({ length: 10 }, () => shares.take('slow', never))
  const began = await Promise.all(slow.map(stateOf))
  expect(began.filter(one => one !== 'waiting')).toHaveLength(2)
  expect(await stateOf(shares.take('other', never))).toBeTypeOf('function')
  expect(await stateOf(shares.take('third', never))).toBeTypeOf('function')
  const late = shares.take('late', never)
  expect(await stateOf(late)).toBe('waiting')
  const [first] = await Promise.all(slow.slice(0, 1))
  first?.()
  first?.()
  expect(await stateOf(late)).toBeTypeOf('function')
  expect(await stateOf(slow[2] ?? late)).toBe('waiting')
  for (const one of slow.slice(1)) one.catch(() => {})
})

test('the only caller over stdio can take all slots', async () => {
  const shares = createShares(3, 1_000)
  const all = [1, 2, 3].map(() => shares.take(undefined, never))
  for (const one of all) expect(await stateOf(one)).toBeTypeOf('function')
})

test('a wait ends at the timeout, when the caller aborts, and when too many callers wait', async () => {
  vi.useFakeTimers()
  try {
    const shares = createShares(1, 1_000)
    const giveBack = await shares.take('one', never)
    const leaving = new AbortController()
    const aborted = shares.take('two', leaving.signal)
    leaving.abort(new Error('the client has disconnected'))
    await expect(aborted).rejects.toThrow('the client has disconnected')
    const late = expect(shares.take('two', never)).rejects.toBeInstanceOf(AcquisitionTimeout)
    vi.advanceTimersByTime(1_000)
    await late
    const many = Array.from({ length: 101 }, () => shares.take('two', never))
    await expect(many[100]).rejects.toBeInstanceOf(AcquisitionTimeout)
    expect(await stateOf(shares.take('three', never))).toBe('waiting')
    giveBack()
    expect(await stateOf(many[0] ?? aborted)).toBeTypeOf('function')
    for (const one of many) one.catch(() => {})
  } finally {
    vi.useRealTimers()
  }
})

test('shares belong to principals; without a token they belong to addresses', () => {
  const user = { ...anyone, kind: 'user', principal: 'user:alice' } as const
  expect(ownerOf({ caller: user, address: '192.0.2.1' })).toBe('user:alice')
  expect(ownerOf({ caller: anyone, address: '192.0.2.1' })).not.toBe(ownerOf({ caller: anyone, address: '192.0.2.2' }))
  expect(ownerOf({ caller: anyone, address: '2001:db8::1' })).toBe(ownerOf({ caller: anyone, address: '2001:db8::2' }))
  expect(ownerOf({ caller: anyone, address: undefined })).toBeUndefined()
})

test('never exceeds the number of slots; a caller without a slot gets the next free slot; callers take turns; all finish', async () => {
  const step = fc.record({ owner: fc.constantFrom('a', 'b', 'c', 'd'), gives: fc.boolean(), at: fc.nat() })
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 6 }), fc.array(step, { maxLength: 60 }), async (size, steps) => {
      const shares = createShares(size, 60_000)
      const holding: { owner: string; number: number; giveBack: () => void }[] = []
      const queued: Record<string, number[]> = { a: [], b: [], c: [], d: [] }
      let number = 0
      let waiting = 0
      const check = () => {
        expect(holding.length).toBeLessThanOrEqual(size)
        for (const [owner, numbers] of Object.entries(queued)) {
          const has = holding.some(one => one.owner === owner)
          if (numbers.length > 0 && !has) expect(holding.length).toBe(size)
        }
      }
      const giveBack = (at: number) => holding.splice(at % holding.length, 1)[0]?.giveBack()
      for (const { owner, gives, at } of steps) {
        if (gives && holding.length > 0) giveBack(at)
        else {
          const own = number++
          queued[owner]?.push(own)
          waiting++
          void shares.take(owner, never).then(back => {
            expect(queued[owner]?.shift()).toBe(own)
            waiting--
            holding.push({ owner, number: own, giveBack: back })
          })
        }
        await stateOf(Promise.resolve())
        check()
      }
      while (holding.length > 0) {
        giveBack(0)
        await stateOf(Promise.resolve())
      }
      expect(waiting).toBe(0)
    }),
    { numRuns: 200 },
  )
})
