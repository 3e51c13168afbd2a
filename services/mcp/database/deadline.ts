/**
 * Enforces a statement's time limit in this server. Postgres does not check its own limit while it creates, converts or
 * copies a large value, which can take many seconds. The caller receives an error at the limit.
 */
import { DatabaseError } from '../../../wire/errors.ts'

export type Deadline = {
  /** Starts the deadline now. */
  start(): void
  /** @throws DatabaseError if the deadline has passed */
  check(): void
  clear(): void
  /** Rejects when the deadline passes. */
  readonly passed: Promise<never>
}

/** The time that Postgres has to report its own limit first. */
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
