/**
 * Whether the pod is restarted now, by deleting it. The owner decides which restarts are requested or due:
 * `restart-annotations.ts`.
 */

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
 * Deletes the pod, for the StatefulSet to create it again: if its size or volume is not the requested one; if it does
 * not run and was created from an older template; if it runs with an expired certificate, so that the operator cannot
 * log in to make it load the new one. The pod is deleted only after the new configuration and template are written.
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
  const outdated = (pod.problem !== undefined && pod.template !== template[templateAnnotation]) || isOfEdited(observed)
  if (!isOutOfDate(observed, desired, pod) && !outdated && !showsExpired(observed, certificateIssuedAt)) return []
  if (stopsToRebind(observed)) return [{ do: 'apply', kind: 'StatefulSet', draft: withoutPod(desired.statefulSet) }]
  const { namespace = '' } = instance.metadata
  return [{ do: 'delete', kind: 'Pod', name: pod.name, namespace, uid: pod.uid }]
}

/** The pod will not run, and was created from a template that another manager had edited and that has been reverted. */
function isOfEdited({ pod, children: { statefulSet } }: ObservedMember): boolean {
  const current = statefulSet?.status?.updateRevision
  if (pod?.isStuck !== true || pod.revision === undefined || current === undefined) return false
  return pod.revision !== current
}

/**
 * Postgres presents an expired certificate, which clients refuse too, and was started before the valid one was issued.
 * (One that merely does not trust the operator serves its clients, and is not restarted.)
 */
function showsExpired(observed: ObservedMember, certificateIssuedAt: number | undefined): boolean {
  const { pod } = observed
  const answer = presentAnswer(observed)
  if (answer?.state !== 'refused' || answer.reason !== 'tls' || !/certificate has expired/.test(answer.message))
    return false
  if (certificateIssuedAt === undefined || pod?.startedAt === undefined) return false
  return certificateIssuedAt > pod.startedAt
}
