// @ts-nocheck
import { expect, test, vi } from 'vitest'
import { createLogins } from './logins.ts'

const limits = { perAddress: 2, perRoute: 3, forNewcomers: 0, waitingPerAddress: 4, waitMs: 1_000, holdMs: 5_000 }

test('few of one address and of one route begin; the others do as places come free, first come first', async () => {
  const logins = createLogins(limits)
  const arrive = (address: string, port = 1) => {
    const login = logins.arrive(port, address)
    if (login === undefined) throw new Error('too many')
    return login
  }
  const begun: string[] = []
  const begin = (name: string, login: ReturnType<typeof arrive>) =>
    void login.begin().then(inTime => begun.push(inTime ? name : `not ${name}`))
  const [a1, a2, a3, b1, b2] = [arrive('a'), arrive('a'), arrive('a'), arrive('b'), arrive('b')]
  for (const [name, login] of Object.entries({ a1, a2, a3, b1, b2 })) begin(name, login)
  begin('elsewhere', arrive('a', 2))
  await Promise.resolve()
  expect(begun).toEqual(['a1', 'a2', 'b1', 'elsewhere'])
  expect(logins.count()).toEqual({ underway: 4, waiting: 2 })
  expect([...logins.countByPort()]).toEqual([
    [1, { underway: 3, waiting: 2 }],
    [2, { underway: 1, waiting: 0 }],
  ])
  b1.end()
  b1.end()
  await Promise.resolve()
  // a has its two already.
  expect(begun.at(-1)).toBe('b2')
  a1.end()
  await Promise.resolve()
  expect(begun.at(-1)).toBe('a3')
  for (const login of [a2, a3, b2]) login.end()
  expect(logins.count()).toEqual({ underway: 1, waiting: 0 })
})

test('who waits is bounded in number and time, and who leaves takes no place', async () => {
  vi.useFakeTimers()
  try {
    const logins = createLogins(limits)
    const all = Array.from({ length: 4 }, () => logins.arrive(1, 'a'))
    expect(logins.arrive(1, 'a')).toBeUndefined()
    expect(logins.arrive(1, 'b')).toBeDefined()
    const began = all.map(login => login?.begin())
    expect(await Promise.all(began.slice(0, 2))).toEqual([true, true])
    all[2]?.end()
    expect(await began[2]).toBe(false)
    vi.advanceTimersByTime(1_000)
    expect(await began[3]).toBe(false)
    // What is still open after that has logged in.
    vi.advanceTimersByTime(4_000)
    expect(logins.count().underway).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})

test('the last places of a route are for addresses that have none', async () => {
  const logins = createLogins({ ...limits, perAddress: 6, perRoute: 6, forNewcomers: 2, waitingPerAddress: 100 })
  const begun: string[] = []
  const begin = (address: string) => {
    const login = logins.arrive(1, address)
    void login?.begin().then(inTime => inTime && begun.push(address))
    return login
  }
  const [first] = ['a', 'a', 'b', 'a', 'b', 'b', 'a'].map(begin)
  await Promise.resolve()
  expect(begun).toEqual(['a', 'a', 'b', 'a'])
  // Whoever has none passes those who wait for one more.
  begin('c')
  begin('d')
  begin('e')
  await Promise.resolve()
  expect(begun.slice(4)).toEqual(['c', 'd'])
  first?.end()
  await Promise.resolve()
  expect(begun.slice(6)).toEqual(['e'])
})

test('of one address a number waits at all routes together, too', () => {
  const logins = createLogins({ ...limits, waitingPerAddressInAll: 6 })
  const arrived = Array.from({ length: 9 }, (_, index) => logins.arrive(index % 3, 'a'))
  expect(arrived.filter(login => login !== undefined)).toHaveLength(6)
  expect(logins.arrive(7, 'b')).toBeDefined()
  arrived[0]?.end()
  expect(logins.arrive(7, 'a')).toBeDefined()
  expect(logins.arrive(8, 'a')).toBeUndefined()
})
