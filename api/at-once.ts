/**
 * Limits how much expensive work runs concurrently in a process. An account with as much running and queued work as
 * there are slots gets a response to retry. The work of other accounts is queued, so that no account is refused because
 * of another account's requests.
 */
import { tooManyRequests } from './errors.ts'

const longestWaitMs = 10_000
const longestQueue = 100

type Bounded = <T>(account: string, work: () => Promise<T>) => Promise<T>

/** @returns a function that runs work for an account within this limit. @throws ApiError 429, and errors of the work */
export function atMost(most: number, waitMs = longestWaitMs): Bounded {
  let underWay = 0
  const queue = new Set<() => void>()
  const ofAccount = new Map<string, number>()

  function takeSlot(): Promise<void> {
    if (underWay < most) {
      underWay += 1
      return Promise.resolve()
    }
    if (queue.size >= longestQueue) throw tooManyRequests(1)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const begin = () => {
      clearTimeout(timer)
      resolve()
    }
    queue.add(begin)
    const timer = setTimeout(() => {
      queue.delete(begin)
      reject(tooManyRequests(1))
    }, waitMs)
    return promise
  }

  /** The first job in the queue takes over the slot. */
  function releaseSlot(): void {
    const [next] = queue
    if (next === undefined) {
      underWay -= 1
      return
    }
    queue.delete(next)
    next()
  }

  function count(account: string, change: 1 | -1): void {
    const remaining = (ofAccount.get(account) ?? 0) + change
    if (remaining > 0) ofAccount.set(account, remaining)
    else ofAccount.delete(account)
  }

  return async (account, work) => {
    if ((ofAccount.get(account) ?? 0) >= most) throw tooManyRequests(1)
    count(account, 1)
    try {
      await takeSlot()
      try {
        return await work()
      } finally {
        releaseSlot()
      }
    } finally {
      count(account, -1)
    }
  }
}
