/** Whether a pod is restarted because of what it was made from. */
import type { ObservedMember } from '../../observed.ts'
import type { PodFacts } from '../pod.ts'
import { sizeText } from '../stateful-set.ts'
import type { Restarts } from './restart-marks.ts'
import type { SizeState } from './size.ts'

type Wanted = { size: SizeState; restarts: Restarts }

/** Whether a restart that was asked for, or is due in the region's window, is still to come. */
function lacksRestart({ restarts: { marks: desired } }: Wanted, { marks }: PodFacts): boolean {
  const lacks = (mark: keyof typeof desired) => desired[mark] !== undefined && desired[mark] !== marks[mark]
  return lacks('restart') || lacks('maintenance')
}

/** Whether a pod is of another size than it is to have, stands on another volume, or is to be restarted. */
export const isOutOfDate = (observed: ObservedMember, desired: Wanted, pod: PodFacts): boolean =>
  pod.size !== sizeText(desired.size.effective) ||
  pod.volume !== observed.children.claim?.metadata.uid ||
  lacksRestart(desired, pod)
