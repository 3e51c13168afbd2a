/** Why a pod of a service does not become ready, in the words of Kubernetes. Pure. */
import type { Pod } from '../../cluster/index.ts'
import type { ServicePod } from './observed.ts'

const troubles = new Set([
  ...['CrashLoopBackOff', 'ErrImagePull', 'ImagePullBackOff', 'ErrImageNeverPull', 'InvalidImageName'],
  ...['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'],
])
const longestMessage = 300

export function troubleOf({ status }: Pod): ServicePod['trouble'] {
  const containers = status?.containerStatuses ?? []
  const restarts = Math.max(0, ...containers.map(({ restartCount }) => restartCount))
  for (const { name, state, lastState } of containers) {
    const reason = state?.waiting?.reason
    if (reason === undefined || !troubles.has(reason)) continue
    const last = lastState?.terminated?.message?.trim().split('\n').at(-1)
    const message = last || state?.waiting?.message || reason
    return { reason, message: `container ${name}: ${message}`.slice(0, longestMessage), restarts }
  }
  const unscheduled = status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False')
  if (unscheduled === undefined) return undefined
  const message = (unscheduled.message ?? 'no node can run it').slice(0, longestMessage)
  return { reason: unscheduled.reason ?? 'Unschedulable', message, restarts }
}
