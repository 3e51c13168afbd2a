/** Bounds how much of what is dear is done at once in a process: whoever comes beyond that is told to come again. */
import { tooManyRequests } from './errors.ts'

/** @returns what does a piece of such work. @throws ApiError 429, and what the work throws */
export function atMost(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  let underWay = 0
  return async work => {
    if (underWay >= most) throw tooManyRequests(1)
    underWay += 1
    try {
      return await work()
    } finally {
      underWay -= 1
    }
  }
}
