/**
 * Bounds how much of what is dear is done at once in a process. One account has no more of it under way than is done at once, and is told to come
 * again beyond that; others wait for their turn, so that nobody is refused for what another one asks.
 */
import { tooManyRequests } from './errors.ts'

const longestWaitMs = 10_000
const longestLine = 100

type Bounded = <T>(account: string, work: () => Promise<T>) => Promise<T>

/** @returns what does a piece of such work for an account. @throws ApiError 429, and what the work throws */
export function atMost(most: number, waitMs = longestWaitMs): Bounded {
  let underWay = 0
  const line = new Set<() => void>()
  const ofAccount = new Map<string, number>()

  function turn(): Promise<void> {
    if (underWay < most) {
      underWay += 1
      return Promise.resolve()
    }
    if (line.size >= longestLine) throw tooManyRequests(1)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const begin = () => {
      clearTimeout(timer)
      resolve()
    }
    line.add(begin)
    const timer = setTimeout(() => {
      line.delete(begin)
      reject(tooManyRequests(1))
    }, waitMs)
    return promise
  }

  /** The first in line has the place from now on. */
  function giveUp(): void {
    const [next] = line
    if (next === undefined) {
      underWay -= 1
      return
    }
    line.delete(next)
    next()
  }

  function count(account: string, change: 1 | -1): void {
    const left = (ofAccount.get(account) ?? 0) + change
    if (left > 0) ofAccount.set(account, left)
    else ofAccount.delete(account)
  }

  return async (account, work) => {
    if ((ofAccount.get(account) ?? 0) >= most) throw tooManyRequests(1)
    count(account, 1)
    try {
      await turn()
      try {
        return await work()
      } finally {
        giveUp()
      }
    } finally {
      count(account, -1)
    }
  }
}
