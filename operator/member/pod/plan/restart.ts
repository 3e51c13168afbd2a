/**
 * Decides whether the operator restarts the pod now, by deleting it. The owner decides which restarts are requested or
 * due: `restart-annotations.ts`.
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
 * Deletes the pod, so that the StatefulSet creates it again, in these cases:
 *
 * - its size or volume is not the desired one;
 * - a restart was requested or is due, and the pod has not had it;
 * - it does not run, and was created from an older template;
 * - it is stuck, and was created from a template that another manager had changed;
 * - Postgres presents an expired certificate, so that the operator cannot log in to reload the new one.
 *
 * The operator deletes the pod only after it has written the new configuration and template. If the volume needs a new
 * claim, the operator scales the StatefulSet to zero instead.
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

/**
 * The pod will not run by itself. It was created from a template that another manager had changed, and the operator has
 * restored the template.
 */
function isOfEdited({ pod, children: { statefulSet } }: ObservedMember): boolean {
  const current = statefulSet?.status?.updateRevision
  if (pod?.isStuck !== true || pod.revision === undefined || current === undefined) return false
  return pod.revision !== current
}

/**
 * Postgres presents an expired certificate, which clients also refuse. Postgres was started before the valid
 * certificate was issued. If the operator refuses the certificate for another reason, Postgres still serves clients,
 * and the operator does not restart it.
 */
function showsExpired(observed: ObservedMember, certificateIssuedAt: number | undefined): boolean {
  const { pod } = observed
  const answer = presentAnswer(observed)
  if (answer?.state !== 'refused' || answer.reason !== 'tls' || !/certificate has expired/.test(answer.message))
    return false
  if (certificateIssuedAt === undefined || pod?.startedAt === undefined) return false
  return certificateIssuedAt > pod.startedAt
}
