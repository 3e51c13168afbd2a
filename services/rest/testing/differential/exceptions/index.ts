/**
 * Where our answers may differ from those of PostgREST 12.0.2, and why: what PostgREST has changed itself up to 14, and what our contract says otherwise. Everything
 * else in which they differ is a fault of ours.
 */
import type { Answer } from '../../../../testing/client.ts'
import { type Difference, differences, type Part } from '../compare.ts'
import type { Asked } from '../request.ts'
import type { Exception } from './exception.ts'
import { ofQueries } from './queries.ts'
import { changesOfQueries } from './query-changes.ts'
import { ofWrites } from './writes.ts'

export const exceptions: readonly Exception[] = [...changesOfQueries, ...ofQueries, ...ofWrites]

const covers = ({ parts }: Exception, part: Part): boolean => parts === undefined || parts.includes(part)

/** What in two answers nothing explains, and the exceptions that explain the rest. */
export function explain(
  asked: Asked,
  theirs: Answer,
  ours: Answer,
): { readonly differences: readonly Difference[]; readonly by: ReadonlySet<Exception> } {
  const by = new Set<Exception>()
  const left = differences(asked, theirs, ours).filter(difference => {
    const found = exceptions.find(one => covers(one, difference.part) && one.applies({ asked, theirs, ours }))
    if (found !== undefined) by.add(found)
    return found === undefined
  })
  return { differences: left, by }
}
