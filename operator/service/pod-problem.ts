/** Why a pod of a service does not become ready, from its Kubernetes status. Pure. */
import type { Pod } from '../../cluster/index.ts'
import { shortened } from '../../values/text.ts'
import type { ServicePod } from './observed.ts'

const problemReasons = new Set([
  ...['CrashLoopBackOff', 'ErrImagePull', 'ImagePullBackOff', 'ErrImageNeverPull', 'InvalidImageName'],
  ...['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'],
])
const longestMessage = 300

export function problemOf({ status }: Pod): ServicePod['problem'] {
  const containers = status?.containerStatuses ?? []
  const restarts = Math.max(0, ...containers.map(({ restartCount }) => restartCount))
  for (const { name, state, lastState } of containers) {
    const reason = state?.waiting?.reason
    if (reason === undefined || !problemReasons.has(reason)) continue
    const last = lastState?.terminated?.message?.trim().split('\n').at(-1)
    const message = last || state?.waiting?.message || reason
    return { reason, message: shortened(`container ${name}: ${message}`, longestMessage), restarts }
  }
  const unscheduled = status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
  if (unscheduled === undefined) return undefined
  const message = shortened(unscheduled.message ?? 'no node can run it', longestMessage)
  return { reason: unscheduled.reason ?? 'Unschedulable', message, restarts }
}
