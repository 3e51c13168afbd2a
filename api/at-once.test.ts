/** One account at its limit keeps nobody else out. */
import { expect, test } from 'vitest'
import { atMost } from './at-once.ts'

type Piece = { ends: () => void; outcome: Promise<string> }

/** Work that ends when told, and what has begun so far. */
function bench(most: number, waitMs?: number) {
  const bounded = atMost(most, waitMs)
  const begun: string[] = []
  const ask = (account: string, name = account): Piece => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const outcome = bounded(account, () => {
      begun.push(name)
      return promise
    })
    outcome.catch(() => {})
    return { ends: () => resolve(name), outcome }
  }
  return { ask, begun }
}
const turns = () => new Promise(resolve => setImmediate(resolve))

test('an account beyond its limit is refused, and another one waits for its turn', async () => {
  const { ask, begun } = bench(2)
  const [first, second] = [ask('greedy', '1'), ask('greedy', '2')]
  await expect(ask('greedy', '3').outcome).rejects.toMatchObject({ status: 429 })
  const [third, fourth] = [ask('modest'), ask('other')]
  await turns()
  expect(begun).toEqual(['1', '2'])
  first.ends()
  expect(await first.outcome).toBe('1')
  // Whoever comes again stands behind those who wait.
  const again = ask('greedy', '4')
  await turns()
  expect(begun).toEqual(['1', '2', 'modest'])
  for (const piece of [second, third]) piece.ends()
  await turns()
  expect(begun).toEqual(['1', '2', 'modest', 'other', '4'])
  for (const piece of [fourth, again]) piece.ends()
  expect(await Promise.all([third, fourth, again].map(({ outcome }) => outcome))).toEqual(['modest', 'other', '4'])
  // All places are free again.
  const [last, very] = [ask('greedy', '5'), ask('greedy', '6')]
  await turns()
  expect(begun.slice(-2)).toEqual(['5', '6'])
  for (const piece of [last, very]) piece.ends()
})

test('nobody waits for ever, and who gave up takes no place', async () => {
  const { ask, begun } = bench(1, 20)
  const first = ask('greedy')
  const second = ask('modest')
  await expect(second.outcome).rejects.toMatchObject({ status: 429, headers: { 'Retry-After': '1' } })
  first.ends()
  await first.outcome
  const third = ask('modest', 'again')
  third.ends()
  expect(await third.outcome).toBe('again')
  expect(begun).toEqual(['greedy', 'again'])
})

test('work that fails gives its place back, and the line has an end', async () => {
  const bounded = atMost(1)
  const failing = bounded('one', () => Promise.reject(new Error('no')))
  await expect(failing).rejects.toThrow('no')
  const { ask } = bench(1)
  const first = ask('0')
  const waiting = Array.from({ length: 100 }, (_, index) => ask(`account${index}`))
  await expect(ask('one too many').outcome).rejects.toMatchObject({ status: 429 })
  for (const piece of [first, ...waiting]) piece.ends()
  expect(await Promise.all(waiting.map(({ outcome }) => outcome))).toHaveLength(100)
  expect(await bounded('one', async () => 'yes')).toBe('yes')
})
