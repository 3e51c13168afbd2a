/** Whether the pod is restarted now, which is to delete it. Which restarts are asked for or due is the owner's to say: `restart-marks.ts`. */
import type { Action } from '../../../workload/actions.ts'
import type { Observed } from '../../../workload/observed.ts'
import { type Assessment, isOutOfDate } from '../../../workload/plan/assessment.ts'
import { isAsDrafted } from '../../../workload/plan/drift.ts'
import { presentAnswer } from '../../postgres/plan/health.ts'
import { templateAnnotation, withoutPod } from '../stateful-set.ts'
import { mayStop, stopsToRebind } from './stop.ts'

/**
 * Deletes the pod, for the StatefulSet to make it anew: when its size or volume is not the one asked; when it does not run and was
 * made from an older template; when it runs with a certificate that has ended, so that nobody can tell it to take the new one. Never
 * before configuration and template are the new ones.
 */
export function restart(observed: Observed, { desired, fatal }: Assessment): Action[] {
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
  if (!isOutOfDate(observed, desired, pod) && !outdated && !showsExpired(observed)) return []
  if (stopsToRebind(observed)) return [{ do: 'apply', kind: 'StatefulSet', draft: withoutPod(desired.statefulSet) }]
  const { namespace = '' } = instance.metadata
  return [{ do: 'delete', kind: 'Pod', name: pod.name, namespace, uid: pod.uid }]
}

/** The pod will not run, and was made from a template that somebody had edited, which is put back by now. */
function isOfEdited({ pod, children: { statefulSet } }: Observed): boolean {
  const current = statefulSet?.status?.updateRevision
  if (pod?.isStuck !== true || pod.revision === undefined || current === undefined) return false
  return pod.revision !== current
}

/**
 * Postgres shows a certificate that has ended, by which clients refuse it too, and was started before the one it should
 * show was issued. (One that merely does not trust the operator serves its clients, and is not restarted for that.)
 */
function showsExpired(observed: Observed): boolean {
  const { certificate, pod } = observed
  const answer = presentAnswer(observed)
  if (answer?.state !== 'refused' || answer.reason !== 'tls' || !/certificate has expired/.test(answer.message))
    return false
  if (certificate.state !== 'good' || pod?.startedAt === undefined) return false
  return (certificate.issuedAt ?? 0) > pod.startedAt
}
