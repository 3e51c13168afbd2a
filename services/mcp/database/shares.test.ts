/** Shares of a pool: no caller keeps others from their statements, and none waits for ever. */
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { AcquisitionTimeout } from '../../postgres/errors.ts'
import { anyone } from '../core/caller.ts'
import { createShares, ownerOf } from './shares.ts'

const never = new AbortController().signal
/** What has come of a promise by now. */
const settled = async <T>(promise: Promise<T>): Promise<T | 'waiting'> => {
  for (let turn = 0; turn < 5; turn++) await null
  return Promise.race([promise, Promise.resolve('waiting' as const)])
}

test('one caller takes half, and whoever comes next has a place at once', async () => {
  const shares = createShares(4, 1_000)
  const slow = Array.from({ length: 10 }, () => shares.take('slow', never))
  const began = await Promise.all(slow.map(settled))
  expect(began.filter(one => one !== 'waiting')).toHaveLength(2)
  expect(await settled(shares.take('other', never))).toBeTypeOf('function')
  expect(await settled(shares.take('third', never))).toBeTypeOf('function')
  const late = shares.take('late', never)
  expect(await settled(late)).toBe('waiting')
  const [first] = await Promise.all(slow.slice(0, 1))
  first?.()
  first?.()
  expect(await settled(late)).toBeTypeOf('function')
  expect(await settled(slow[2] ?? late)).toBe('waiting')
  for (const one of slow.slice(1)) one.catch(() => {})
})

test('the only caller over stdio has all of them', async () => {
  const shares = createShares(3, 1_000)
  const all = [1, 2, 3].map(() => shares.take(undefined, never))
  for (const one of all) expect(await settled(one)).toBeTypeOf('function')
})

test('waiting ends with its time, with its caller, and where too many wait', async () => {
  vi.useFakeTimers()
  try {
    const shares = createShares(1, 1_000)
    const giveBack = await shares.take('one', never)
    const impatient = new AbortController()
    const gone = shares.take('two', impatient.signal)
    impatient.abort(new Error('the client is gone'))
    await expect(gone).rejects.toThrow('the client is gone')
    const late = expect(shares.take('two', never)).rejects.toBeInstanceOf(AcquisitionTimeout)
    vi.advanceTimersByTime(1_000)
    await late
    const many = Array.from({ length: 101 }, () => shares.take('two', never))
    await expect(many[100]).rejects.toBeInstanceOf(AcquisitionTimeout)
    expect(await settled(shares.take('three', never))).toBe('waiting')
    giveBack()
    expect(await settled(many[0] ?? gone)).toBeTypeOf('function')
    for (const one of many) one.catch(() => {})
  } finally {
    vi.useRealTimers()
  }
})

test('callers are told apart by principal, and without a token by address', () => {
  const user = { ...anyone, kind: 'user', principal: 'user:alice' } as const
  expect(ownerOf({ caller: user, address: '192.0.2.1' })).toBe('user:alice')
  expect(ownerOf({ caller: anyone, address: '192.0.2.1' })).not.toBe(ownerOf({ caller: anyone, address: '192.0.2.2' }))
  expect(ownerOf({ caller: anyone, address: '2001:db8::1' })).toBe(ownerOf({ caller: anyone, address: '2001:db8::2' }))
  expect(ownerOf({ caller: anyone, address: undefined })).toBeUndefined()
})

test('never more than there are; no place stays empty for who has none; each caller in turn; all come to their end', async () => {
  const step = fc.record({ owner: fc.constantFrom('a', 'b', 'c', 'd'), gives: fc.boolean(), at: fc.nat() })
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 6 }), fc.array(step, { maxLength: 60 }), async (size, steps) => {
      const shares = createShares(size, 60_000)
      const holding: { owner: string; number: number; giveBack: () => void }[] = []
      const asked: Record<string, number[]> = { a: [], b: [], c: [], d: [] }
      let number = 0
      let waiting = 0
      const check = () => {
        expect(holding.length).toBeLessThanOrEqual(size)
        for (const [owner, numbers] of Object.entries(asked)) {
          const has = holding.some(one => one.owner === owner)
          if (numbers.length > 0 && !has) expect(holding.length).toBe(size)
        }
      }
      const giveBack = (at: number) => holding.splice(at % holding.length, 1)[0]?.giveBack()
      for (const { owner, gives, at } of steps) {
        if (gives && holding.length > 0) giveBack(at)
        else {
          const mine = number++
          asked[owner]?.push(mine)
          waiting++
          void shares.take(owner, never).then(back => {
            expect(asked[owner]?.shift()).toBe(mine)
            waiting--
            holding.push({ owner, number: mine, giveBack: back })
          })
        }
        await settled(Promise.resolve())
        check()
      }
      while (holding.length > 0) {
        giveBack(0)
        await settled(Promise.resolve())
      }
      expect(waiting).toBe(0)
    }),
    { numRuns: 200 },
  )
})
