/**
 * A value that users see in many other objects, such as an account's limit. It is stored with the time of its last
 * change.
 */
import { canonicalJson } from '../../crds/index.ts'
import { preciseTime } from '../../values/time.ts'

/** `before`: the last stored value. For users, the first value is not a change. */
export function withSince<T extends object>(
  before: (T & { since?: string | undefined }) | undefined,
  seen: T,
  now: number,
): T & { since?: string | undefined } {
  if (before === undefined) return seen
  const { since: _, ...rest } = before
  return canonicalJson(rest) === canonicalJson(seen) ? before : { ...seen, since: preciseTime(now) }
}
