/** The status entries of the members that have a pod. */
import { membersOf, type Observed } from '../observed.ts'

type ListedInstance = { id: string; role: 'primary' | 'replica'; node?: string }

/** The serving member is the primary, and is listed first. */
export const instancesOf = (observed: Observed): ListedInstance[] =>
  membersOf(observed).flatMap(({ pod }, index) => {
    if (pod === undefined) return []
    return [{ id: pod.name, role: index === 0 ? 'primary' : 'replica', ...(pod.node ? { node: pod.node } : {}) }]
  })
