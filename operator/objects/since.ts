/** What users see of an object that many others show, as an account's limit: with it stands when it became another one. */
import { canonicalJson } from '../../crds/index.ts'
import { preciseTime } from '../../values/time.ts'

/** `before`: what was noted last. The first note is no change of what users see. */
export function withSince<T extends object>(
  before: (T & { since?: string | undefined }) | undefined,
  seen: T,
  now: number,
): T & { since?: string | undefined } {
  if (before === undefined) return seen
  const { since: _, ...rest } = before
  return canonicalJson(rest) === canonicalJson(seen) ? before : { ...seen, since: preciseTime(now) }
}
