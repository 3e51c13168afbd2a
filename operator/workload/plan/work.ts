/** What to do next for a database that is to exist. Everything named at once is independent of the rest. */

import { conditionOf } from '../../objects/conditions.ts'
import type { Owner } from '../../objects/ownership.ts'
import { covers } from '../../objects/up-to-date.ts'
import type { Action } from '../actions.ts'
import { repairedClaim } from '../children/claim.ts'
import { templateAnnotation, withoutPod } from '../children/stateful-set.ts'
import type { Observed } from '../observed.ts'
import { type Assessment, isOutOfDate } from './assessment.ts'
import { awaitsReload } from './configuration.ts'
import { isHeldBack, resizedClaim } from './growth.ts'
import { presentAnswer } from './health.ts'
import { rescue } from './rescue.ts'
import { isStopped, mayStop, stopsToRebind } from './stop.ts'
import { isToBeReplaced, replacement } from './unmade.ts'

export function work(observed: Observed, owner: Owner, assessment: Assessment): Action[] {
  return [
    ...secrets(observed, assessment),
    ...volume(observed, assessment),
    ...rescue(observed, owner),
    ...instance(observed, assessment),
    ...restart(observed, assessment),
    ...inPostgres(observed, assessment),
    ...endpoint(observed, assessment),
  ]
}

function secrets({ credentials, certificate }: Observed, { wanted }: Assessment): Action[] {
  const actions: Action[] = []
  if (credentials.state === 'absent') actions.push({ do: 'mint-credentials' })
  const isNext = certificate.state === 'absent' || (certificate.state === 'due' && !certificate.awaitsTurn)
  if (isNext && wanted.certificate) actions.push({ do: 'issue-certificate', names: wanted.certificate })
  return actions
}

/**
 * A volume is claimed, and a claim that waits for one replaced, only while none has been recorded; one that is lost never
 * is, and a claim that is not, or not yet, the database's is left as it is.
 */
function volume(observed: Observed, { wanted }: Assessment): Action[] {
  const { instance, children, size, growthRefusal, isStrayClaim } = observed
  const recorded = instance.status?.volume
  const { claim } = children
  if (claim === undefined)
    return recorded === undefined && wanted.claim ? [{ do: 'create-claim', draft: wanted.claim }] : []
  if (recorded === undefined ? isStrayClaim : recorded.uid !== claim.metadata.uid) return []
  if (isToBeReplaced(observed)) return replacement(observed)
  const repaired = wanted.claim && repairedClaim(claim, wanted.claim)
  if (repaired) return [{ do: 'update-claim', claim: repaired }]
  const storage = size?.spec.shape.storageSize
  const resized = storage && resizedClaim(claim, storage)
  if (!resized || isHeldBack(growthRefusal, claim, storage)) return []
  return [{ do: 'grow-claim', claim: resized }]
}

/** Service, fence and configuration first; the StatefulSet once all that its pod mounts, and the fence, is there. */
function instance(observed: Observed, { wanted }: Assessment): Action[] {
  const { children } = observed
  const actions: Action[] = []
  if (wanted.configuration && !covers(children.configuration, wanted.configuration))
    actions.push({ do: 'apply', kind: 'ConfigMap', draft: wanted.configuration })
  if (!covers(children.service, wanted.service)) actions.push({ do: 'apply', kind: 'Service', draft: wanted.service })
  if (!covers(children.networkPolicy, wanted.networkPolicy))
    actions.push({ do: 'apply', kind: 'NetworkPolicy', draft: wanted.networkPolicy })
  actions.push(...disruptionBudget(children.disruptionBudget, wanted.disruptionBudget))
  const { configuration, credentials, certificate, claim, networkPolicy } = children
  const canStart = [configuration, credentials, certificate, claim, networkPolicy].every(child => child !== undefined)
  const stops = isStopped(observed) && children.statefulSet !== undefined
  if (wanted.statefulSet && (canStart || stops) && !covers(children.statefulSet, wanted.statefulSet))
    actions.push({ do: 'apply', kind: 'StatefulSet', draft: wanted.statefulSet })
  return actions
}

/** Nothing waits for it: it says what others may do, and the database serves without. */
function disruptionBudget(
  actual: Observed['children']['disruptionBudget'],
  wanted: Assessment['wanted']['disruptionBudget'],
): Action[] {
  if (wanted !== undefined)
    return covers(actual, wanted) ? [] : [{ do: 'apply', kind: 'PodDisruptionBudget', draft: wanted }]
  if (actual === undefined || actual.metadata.deletionTimestamp !== undefined) return []
  const { name, namespace = '', uid = '' } = actual.metadata
  return [{ do: 'delete', kind: 'PodDisruptionBudget', name, namespace, uid }]
}

/**
 * Deletes the pod, for the StatefulSet to make it anew: when its size or volume is not the one asked; when it does not run and was
 * made from an older template; when it runs with a certificate that has ended, so that nobody can tell it to take the new one. Never
 * before configuration and template are the new ones.
 */
function restart(observed: Observed, { wanted, fatal }: Assessment): Action[] {
  const { instance, children, pod } = observed
  const { statefulSet } = children
  if (!wanted.statefulSet || !pod || pod.terminating || !statefulSet || !wanted.size.shape) return []
  if (fatal || instance.spec.suspended) return []
  if (!mayStop(observed)) return []
  if (!covers(statefulSet, wanted.statefulSet) || !covers(children.configuration, wanted.configuration)) return []
  const { generation = 0 } = statefulSet.metadata
  if ((statefulSet.status?.observedGeneration ?? generation) < generation) return []
  const template = statefulSet.spec?.template.metadata?.annotations ?? {}
  const outdated = pod.trouble !== undefined && pod.template !== template[templateAnnotation]
  if (!isOutOfDate(observed, wanted, pod) && !outdated && !showsExpired(observed)) return []
  if (stopsToRebind(observed)) return [{ do: 'apply', kind: 'StatefulSet', draft: withoutPod(wanted.statefulSet) }]
  const { namespace = '' } = instance.metadata
  return [{ do: 'delete', kind: 'Pod', name: pod.name, namespace, uid: pod.uid }]
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

function inPostgres(observed: Observed, { answered, fatal, wanted }: Assessment): Action[] {
  const { credentials, certificate, postgres, keys } = observed
  if (answered === undefined || fatal || postgres === undefined || postgres.isOutdated) return []
  const actions: Action[] = []
  const current = credentials.state === 'readable' && postgres.mark === credentials.mark
  if (current && !(answered.rolesInOrder && answered.platformInOrder)) actions.push({ do: 'ensure-roles' })
  const shown = answered.certificate
  const isShown = certificate.state === 'good' && shown === certificate.fingerprint
  if (certificate.state === 'good' && shown !== undefined && !isShown) actions.push({ do: 'reload' })
  else if (awaitsReload(observed, wanted) && answered.configuration.onDisk === wanted.configurationDigest)
    actions.push({ do: 'reload' })
  if (keys.isChanging && isShown && shown !== undefined && !certificate.isLoaded)
    actions.push({ do: 'note-loaded', fingerprint: shown })
  return actions
}

/** The port is claimed closed, at once; its rules come into force when the database can answer for itself. */
function endpoint(observed: Observed, { wanted }: Assessment): Action[] {
  const { instance, children, route, region } = observed
  if (!region) return []
  if (!route || !children.route || !wanted.route)
    return [{ do: 'claim-port', preferred: instance.status?.endpoint?.port }]
  if (route.refused && instance.status?.volume === undefined)
    return [{ do: 'leave-port', port: route.port, uid: children.route.metadata.uid ?? '' }]
  return covers(children.route, wanted.route) ? [] : [{ do: 'apply', kind: 'ConfigMap', draft: wanted.route }]
}

/** Whether it served, in the present run of Postgres and as asked, when the status was last written. */
function isSettled({ instance, isAtRest, pod }: Observed): boolean {
  const ready = conditionOf(instance.status, 'Ready')
  if (ready?.status !== 'True' || !isAtRest) return false
  return (pod?.startedAt ?? Number.POSITIVE_INFINITY) < Date.parse(ready.lastTransitionTime)
}

/** Whether Postgres is to be looked at as soon as may be: something is waited for that only it can tell. */
export function awaitsPostgres(observed: Observed, { wanted }: Pick<Assessment, 'wanted'>): boolean {
  const { pod, postgres, credentials, certificate, keys } = observed
  if (pod?.address === undefined || pod.terminating) return false
  // Every other server waits for this one.
  if (keys.isChanging && certificate.state === 'good' && !certificate.isLoaded) return true
  if (wanted.restarts.isUnsure) return true
  const answer = presentAnswer(observed)
  if (postgres === undefined && isSettled(observed)) return false
  if (answer === undefined || postgres?.isOutdated) return true
  const mark = credentials.state === 'readable' ? credentials.mark : undefined
  return (
    answer.state === 'refused' ||
    !answer.hasRoom ||
    answer.walHangs ||
    !answer.rolesInOrder ||
    answer.login === 'refused' ||
    postgres?.mark !== mark
  )
}
