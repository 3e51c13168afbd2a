/** One account at its limit does not block other accounts. */
import { expect, test } from 'vitest'
import { atMost } from './at-once.ts'

type Piece = { ends: () => void; outcome: Promise<string> }

/** Jobs that end when the test ends them, and the jobs that have started so far. */
function bench(most: number, waitMs?: number) {
  const bounded = atMost(most, waitMs)
  const begun: string[] = []
  const startPiece = (account: string, name = account): Piece => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const outcome = bounded(account, () => {
      begun.push(name)
      return promise
    })
    outcome.catch(() => {})
    return { ends: () => resolve(name), outcome }
  }
  return { startPiece, begun }
}
const eventLoopTurn = () => new Promise(resolve => setImmediate(resolve))

test('an account above its limit is refused, and another account is queued', async () => {
  const { startPiece, begun } = bench(2)
  const [first, second] = [startPiece('greedy', '1'), startPiece('greedy', '2')]
  await expect(startPiece('greedy', '3').outcome).rejects.toMatchObject({ status: 429 })
  const [third, fourth] = [startPiece('modest'), startPiece('other')]
  await eventLoopTurn()
  expect(begun).toEqual(['1', '2'])
  first.ends()
  expect(await first.outcome).toBe('1')
  // A new request is queued behind the waiting requests.
  const again = startPiece('greedy', '4')
  await eventLoopTurn()
  expect(begun).toEqual(['1', '2', 'modest'])
  for (const piece of [second, third]) piece.ends()
  await eventLoopTurn()
  expect(begun).toEqual(['1', '2', 'modest', 'other', '4'])
  for (const piece of [fourth, again]) piece.ends()
  expect(await Promise.all([third, fourth, again].map(({ outcome }) => outcome))).toEqual(['modest', 'other', '4'])
  // All slots are free again.
  const [last, very] = [startPiece('greedy', '5'), startPiece('greedy', '6')]
  await eventLoopTurn()
  expect(begun.slice(-2)).toEqual(['5', '6'])
  for (const piece of [last, very]) piece.ends()
})

test('no request waits forever, and a cancelled request takes no slot', async () => {
  const { startPiece, begun } = bench(1, 20)
  const first = startPiece('greedy')
  const second = startPiece('modest')
  await expect(second.outcome).rejects.toMatchObject({ status: 429, headers: { 'Retry-After': '1' } })
  first.ends()
  await first.outcome
  const third = startPiece('modest', 'again')
  third.ends()
  expect(await third.outcome).toBe('again')
  expect(begun).toEqual(['greedy', 'again'])
})

test('failed work releases its slot, and the queue has a limit', async () => {
  const bounded = atMost(1)
  const failing = bounded('one', () => Promise.reject(new Error('no')))
  await expect(failing).rejects.toThrow('no')
  const { startPiece } = bench(1)
  const first = startPiece('0')
  const waiting = Array.from({ length: 100 }, (_, index) => startPiece(`account${index}`))
  await expect(startPiece('one too many').outcome).rejects.toMatchObject({ status: 429 })
  for (const piece of [first, ...waiting]) piece.ends()
  expect(await Promise.all(waiting.map(({ outcome }) => outcome))).toHaveLength(100)
  expect(await bounded('one', async () => 'yes')).toBe('yes')
})
