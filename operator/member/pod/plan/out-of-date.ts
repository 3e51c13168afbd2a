/** Whether a pod is restarted because it is out of date. */
import type { ObservedMember } from '../../observed.ts'
import type { PodFacts } from '../pod.ts'
import { sizeText } from '../stateful-set.ts'
import type { Restarts } from './restart-annotations.ts'
import type { SizeState } from './size.ts'

type Wanted = { size: SizeState; restarts: Restarts }

/** Whether a requested restart, or one due in the region's maintenance window, has not been done yet. */
function lacksRestart(
  { restarts: { restartAnnotations: desired } }: Wanted,
  { restartAnnotations }: PodFacts,
): boolean {
  const lacks = (key: keyof typeof desired) => desired[key] !== undefined && desired[key] !== restartAnnotations[key]
  return lacks('restart') || lacks('maintenance')
}

/** Whether a pod has another size or volume than desired, or is to be restarted. */
export const isOutOfDate = (observed: ObservedMember, desired: Wanted, pod: PodFacts): boolean =>
  pod.size !== sizeText(desired.size.effective) ||
  pod.volume !== observed.children.claim?.metadata.uid ||
  lacksRestart(desired, pod)
