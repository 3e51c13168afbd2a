/**
 * The time limit of a statement, enforced by this server. Postgres checks its own limit only at times: not while it
 * creates, converts or copies a large value, which can take many seconds. The caller gets an answer at the limit.
 */
import { DatabaseError } from '../../../wire/errors.ts'

export type Deadline = {
  /** Starts the deadline now. */
  start(): void
  /** @throws DatabaseError if it has passed */
  check(): void
  clear(): void
  /** Rejects when it has passed. */
  readonly passed: Promise<never>
}

/** The time that Postgres gets to report its own limit. */
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
