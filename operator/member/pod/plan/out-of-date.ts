/** Whether a pod is out of date, so that the operator restarts it. */
import type { ObservedMember } from '../../observed.ts'
import type { PodFacts } from '../pod.ts'
import { sizeText } from '../stateful-set.ts'
import type { Restarts } from './restart-annotations.ts'
import type { SizeState } from './size.ts'

type Wanted = { size: SizeState; restarts: Restarts }

/**
 * Whether a restart is due: a user or the maintenance window requires one, and the pod's annotations do not record it.
 */
function lacksRestart(
  { restarts: { restartAnnotations: desired } }: Wanted,
  { restartAnnotations }: PodFacts,
): boolean {
  const lacks = (key: keyof typeof desired) => desired[key] !== undefined && desired[key] !== restartAnnotations[key]
  return lacks('restart') || lacks('maintenance')
}

/** Whether the pod has another size or volume than desired, or a restart is due. */
export const isOutOfDate = (observed: ObservedMember, desired: Wanted, pod: PodFacts): boolean =>
  pod.size !== sizeText(desired.size.effective) ||
  pod.volume !== observed.children.claim?.metadata.uid ||
  lacksRestart(desired, pod)
