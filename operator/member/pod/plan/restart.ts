/** Whether the pod is restarted now, which is to delete it. Which restarts are asked for or due is the owner's to say: `restart-marks.ts`. */

import type { ChildAction } from '../../../children/actions.ts'
import { isAsDrafted } from '../../../children/drift.ts'
import type { Finding } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import type { DesiredMember } from '../../plan/desired.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import { templateAnnotation, withoutPod } from '../stateful-set.ts'
import { isOutOfDate } from './out-of-date.ts'
import { mayStop, stopsToRebind } from './stop.ts'

/**
 * Deletes the pod, for the StatefulSet to make it anew: when its size or volume is not the one asked; when it does not run and was
 * made from an older template; when it runs with a certificate that has ended, so that nobody can tell it to take the new one. Never
 * before configuration and template are the new ones.
 */
export function restart(
  observed: ObservedMember,
  { desired, fatal }: { desired: DesiredMember; fatal: Finding | undefined },
  certificateIssuedAt: number | undefined,
): ChildAction[] {
  const { instance, children, pod } = observed
  const { statefulSet } = children
  if (!desired.statefulSet || !pod || pod.terminating || !statefulSet || !desired.size.shape) return []
  if (fatal || instance.spec.suspended) return []
  if (!mayStop(observed)) return []
  if (!isAsDrafted(observed, statefulSet, desired.statefulSet)) return []
  if (!isAsDrafted(observed, children.configuration, desired.configuration)) return []
  const { generation = 0 } = statefulSet.metadata
  if ((statefulSet.status?.observedGeneration ?? generation) < generation) return []
  const template = statefulSet.spec?.template.metadata?.annotations ?? {}
  const outdated = (pod.trouble !== undefined && pod.template !== template[templateAnnotation]) || isOfEdited(observed)
  if (!isOutOfDate(observed, desired, pod) && !outdated && !showsExpired(observed, certificateIssuedAt)) return []
  if (stopsToRebind(observed)) return [{ do: 'apply', kind: 'StatefulSet', draft: withoutPod(desired.statefulSet) }]
  const { namespace = '' } = instance.metadata
  return [{ do: 'delete', kind: 'Pod', name: pod.name, namespace, uid: pod.uid }]
}

/** The pod will not run, and was made from a template that somebody had edited, which is put back by now. */
function isOfEdited({ pod, children: { statefulSet } }: ObservedMember): boolean {
  const current = statefulSet?.status?.updateRevision
  if (pod?.isStuck !== true || pod.revision === undefined || current === undefined) return false
  return pod.revision !== current
}

/**
 * Postgres shows a certificate that has ended, by which clients refuse it too, and was started before the one it should
 * show was issued. (One that merely does not trust the operator serves its clients, and is not restarted for that.)
 */
function showsExpired(observed: ObservedMember, certificateIssuedAt: number | undefined): boolean {
  const { pod } = observed
  const answer = presentAnswer(observed)
  if (answer?.state !== 'refused' || answer.reason !== 'tls' || !/certificate has expired/.test(answer.message))
    return false
  if (certificateIssuedAt === undefined || pod?.startedAt === undefined) return false
  return certificateIssuedAt > pod.startedAt
}
