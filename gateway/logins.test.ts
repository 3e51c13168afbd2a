import { expect, test, vi } from 'vitest'
import { createLogins, type Login } from './logins.ts'

const limits = { perAddress: 2, perRoute: 3, reservedPerRoute: 0, waitingPerAddress: 4, waitMs: 1_000, slotMs: 5_000 }

const noEviction = () => {
  throw new Error('evicted')
}

/** A connection that has sent its first bytes; undefined if too many connections of its address wait. */
function arrived(logins: ReturnType<typeof createLogins>, port: number, address: string): Login | undefined {
  const login = logins.arrive(port, address, noEviction)
  return login.speak() ? login : undefined
}

test('only a few logins per address and per route start; the others start in order as slots become free', async () => {
  const logins = createLogins(limits)
  const arrive = (address: string, port = 1) => {
    const login = arrived(logins, port, address)
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
  // Address a already has its two logins.
  expect(begun.at(-1)).toBe('b2')
  a1.end()
  await Promise.resolve()
  expect(begun.at(-1)).toBe('a3')
  for (const login of [a2, a3, b2]) login.end()
  expect(logins.count()).toEqual({ underway: 1, waiting: 0 })
})

test('the number and time of waiting connections are limited, and a disconnected client takes no slot', async () => {
  vi.useFakeTimers()
  try {
    const logins = createLogins(limits)
    const all = Array.from({ length: 4 }, () => arrived(logins, 1, 'a'))
    expect(arrived(logins, 1, 'a')).toBeUndefined()
    expect(arrived(logins, 1, 'b')).toBeDefined()
    const began = all.map(login => login?.begin())
    expect(await Promise.all(began.slice(0, 2))).toEqual([true, true])
    all[2]?.end()
    expect(await began[2]).toBe(false)
    vi.advanceTimersByTime(1_000)
    expect(await began[3]).toBe(false)
    // A connection that is still open after this time has logged in.
    vi.advanceTimersByTime(4_000)
    expect(logins.count().underway).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})

test('the last slots of a route are for addresses without a slot', async () => {
  const logins = createLogins({ ...limits, perAddress: 6, perRoute: 6, reservedPerRoute: 2, waitingPerAddress: 100 })
  const begun: string[] = []
  const begin = (address: string) => {
    const login = arrived(logins, 1, address)
    void login?.begin().then(inTime => inTime && begun.push(address))
    return login
  }
  const [first] = ['a', 'a', 'b', 'a', 'b', 'b', 'a'].map(begin)
  await Promise.resolve()
  expect(begun).toEqual(['a', 'a', 'b', 'a'])
  // A connection of an address without a slot starts before those whose addresses already have slots.
  begin('c')
  begin('d')
  begin('e')
  await Promise.resolve()
  expect(begun.slice(4)).toEqual(['c', 'd'])
  first?.end()
  await Promise.resolve()
  expect(begun.slice(6)).toEqual(['e'])
})

test('waiting connections of one address are also limited over all routes', () => {
  const logins = createLogins({ ...limits, waitingPerAddressInAll: 6 })
  const all = Array.from({ length: 9 }, (_, index) => arrived(logins, index % 3, 'a'))
  expect(all.filter(login => login !== undefined)).toHaveLength(6)
  expect(arrived(logins, 7, 'b')).toBeDefined()
  all[0]?.end()
  expect(arrived(logins, 7, 'a')).toBeDefined()
  expect(arrived(logins, 8, 'a')).toBeUndefined()
})

test('above the limit of silent connections, the oldest connection of the address is evicted', () => {
  const logins = createLogins({ ...limits, silentPerAddress: 3 })
  const evicted: string[] = []
  const arrive = (name: string, address: string, port = 1) => {
    const login = logins.arrive(port, address, () => {
      evicted.push(name)
      login.end()
    })
    return login
  }
  const [first, second] = [arrive('a1', 'a'), arrive('a2', 'a', 2)]
  arrive('a3', 'a')
  arrive('b1', 'b')
  expect(evicted).toEqual([])
  arrive('a4', 'a')
  expect(evicted).toEqual(['a1'])
  expect(first.speak()).toBe(false)
  // A connection that has sent data is no longer silent.
  expect(second.speak()).toBe(true)
  arrive('a5', 'a')
  expect(evicted).toEqual(['a1'])
  arrive('a6', 'a')
  expect(evicted).toEqual(['a1', 'a3'])
  expect(logins.count()).toEqual({ underway: 0, waiting: 5 })
})

test('silent connections do not count as waiting connections', () => {
  const logins = createLogins({ ...limits, silentPerAddress: 100 })
  for (let index = 0; index < 50; index++) logins.arrive(1, 'a', noEviction)
  expect(arrived(logins, 1, 'a')).toBeDefined()
})
