/**
 * The end of a statement's time as this server sees it. Postgres checks its own limit only now and then: not while it makes, converts or copies a large value, which can take many
 * seconds. Whoever called is answered all the same.
 */
import { DatabaseError } from '../../postgres/errors.ts'

export type Deadline = {
  /** From now on. */
  start(): void
  /** @throws DatabaseError where it has passed */
  check(): void
  clear(): void
  /** Rejects once it has passed. */
  readonly passed: Promise<never>
}

/** Postgres reports its own limit within this time, where it can. */
const graceMs = 500

const overdue = () =>
  new DatabaseError(
    new Map([
      ['C', '57014'],
      ['M', 'the statement did not end in time'],
    ]),
  )

export function createDeadline(limitMs: number): Deadline {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => {})
  let timer: NodeJS.Timeout | undefined
  let isPassed = false
  return {
    start: () => {
      timer ??= setTimeout(() => {
        isPassed = true
        reject(overdue())
      }, limitMs + graceMs)
    },
    check: () => {
      if (isPassed) throw overdue()
    },
    clear: () => clearTimeout(timer),
    passed: promise,
  }
}
