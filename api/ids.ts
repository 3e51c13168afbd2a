/** Ids that the API mints. */
import { randomUUID } from 'node:crypto'

/**
 * For tasks: a UUID of version 7 (RFC 9562, section 5.7), so that tasks of one second, which is all that a
 * creationTimestamp tells, still list in the order they were asked for. Databases keep random ones: their names and
 * addresses come from an id's first digits.
 */
export function taskId(now: number): string {
  const time = Math.trunc(now).toString(16).padStart(12, '0')
  const random = randomUUID()
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${random.slice(15)}`
}
