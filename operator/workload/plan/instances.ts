/** What a status lists of the members that have a pod. */
import { membersOf, type Observed } from '../observed.ts'

type ListedInstance = { id: string; role: 'primary' | 'replica'; node?: string }

/** The one that serves is the primary, and comes first. */
export const instancesOf = (observed: Observed): ListedInstance[] =>
  membersOf(observed).flatMap(({ pod }, index) => {
    if (pod === undefined) return []
    return [{ id: pod.name, role: index === 0 ? 'primary' : 'replica', ...(pod.node ? { node: pod.node } : {}) }]
  })
