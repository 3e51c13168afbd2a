/** What to do next for a database that is to exist. Everything named at once is independent of the rest. */

import type { Secret } from '../../../cluster/index.ts'
import { areCredentialsLost } from '../../endpoint/plan/lost-credentials.ts'
import { rotation, undone } from '../../endpoint/plan/rotation.ts'
import { podRepair } from '../../member/pod/plan/pod-repair.ts'
import { restart } from '../../member/pod/plan/restart.ts'
import { isStopped } from '../../member/pod/plan/stop.ts'
import { awaitsReload } from '../../member/postgres/plan/configuration.ts'
import { isOwn, presentAnswer } from '../../member/postgres/plan/health.ts'
import { repairedClaim } from '../../member/storage/claim.ts'
import { isHeldBack, resizedClaim } from '../../member/storage/plan/growth.ts'
import { rescue } from '../../member/storage/plan/rescue.ts'
import { adoption } from '../../member/storage/plan/retained.ts'
import { isToBeReplaced, replacement } from '../../member/storage/plan/unmade.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type Component, childLabels, type Owner } from '../../objects/ownership.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'
import type { Assessment } from './assessment.ts'
import { put } from './drift.ts'

export function nextActions(observed: Observed, owner: Owner, assessment: Assessment): Action[] {
  const repairs = podRepair(observed, assessment)
  // A restart is decided by the annotations once they are put back.
  const isMisread = repairs.some(action => action.do === 'repair-pod' && Object.keys(action.annotations).length > 0)
  return [
    ...secrets(observed, owner, assessment),
    ...volume(observed, owner, assessment),
    ...rescue(observed, owner),
    ...instance(observed, assessment),
    ...repairs,
    ...(isMisread ? [] : restart(observed, assessment)),
    ...(assessment.fatal ? [] : rotation(observed, assessment.answered)),
    ...inPostgres(observed, assessment),
    ...endpoint(observed, assessment),
  ]
}

function secrets(observed: Observed, owner: Owner, { desired }: Assessment): Action[] {
  const { credentials, certificate, children } = observed
  const actions: Action[] = []
  if (credentials.state === 'absent')
    actions.push({ do: areCredentialsLost(observed) ? 'find-credentials' : 'mint-credentials' })
  actions.push(...labelled(children.credentials, owner, 'credentials'), ...labelled(children.certificate, owner, 'tls'))
  const isNext = certificate.state === 'absent' || (certificate.state === 'due' && !certificate.awaitsTurn)
  if (isNext && desired.certificate) actions.push({ do: 'issue-certificate', names: desired.certificate })
  return actions
}

/** Puts the labels of a Secret back. */
function labelled(secret: Secret | undefined, owner: Owner, component: Component): Action[] {
  if (secret === undefined || secret.metadata.deletionTimestamp !== undefined) return []
  const labels = { ...secret.metadata.labels, ...childLabels(owner, component) }
  if (isUpToDate(secret.metadata.labels, labels)) return []
  return [{ do: 'relabel', secret: { ...secret, metadata: { ...secret.metadata, labels } } }]
}

/**
 * A volume is claimed, and a claim that waits for one replaced, only while none has been recorded; one that is lost never
 * is, and a claim that is not, or not yet, the database's is left as it is.
 */
function volume(observed: Observed, owner: Owner, { desired, autogrown }: Assessment): Action[] {
  const { instance, children, size, growthRefusal, isStrayClaim } = observed
  const recorded = instance.status?.volume
  const { claim } = children
  if (claim === undefined && observed.retained.length > 0) return adoption(observed, owner)
  if (claim === undefined)
    return recorded === undefined && !instance.awaitsSource && desired.claim
      ? [{ do: 'create-claim', draft: desired.claim }]
      : []
  if (recorded === undefined ? isStrayClaim : recorded.uid !== claim.metadata.uid) return []
  if (isToBeReplaced(observed)) return replacement(observed)
  const repaired = desired.claim && repairedClaim(claim, desired.claim)
  if (repaired) return [{ do: 'update-claim', claim: repaired }]
  const storage = size?.spec.shape.storageSize
  const resized = storage && resizedClaim(claim, storage)
  if (!resized) return autogrown.claim ? [{ do: 'grow-claim', claim: autogrown.claim }] : []
  return isHeldBack(growthRefusal, claim, storage) ? [] : [{ do: 'grow-claim', claim: resized }]
}

/** Service, fence and configuration first; the StatefulSet once all that its pod mounts, and the fence, is there, or is not to be waited for. */
function instance(observed: Observed, { desired }: Assessment): Action[] {
  const { children } = observed
  const actions: Action[] = [
    ...(desired.configuration ? put(observed, 'ConfigMap', children.configuration, desired.configuration) : []),
    ...put(observed, 'Service', children.service, desired.service),
    ...put(observed, 'NetworkPolicy', children.networkPolicy, desired.networkPolicy),
    ...disruptionBudget(observed, desired.disruptionBudget),
  ]
  const { configuration, credentials, certificate, claim, networkPolicy } = children
  const isKnown = credentials !== undefined || areCredentialsLost(observed)
  const canStart = isKnown && [configuration, certificate, claim, networkPolicy].every(child => child !== undefined)
  const stops = isStopped(observed) && children.statefulSet !== undefined
  if (desired.statefulSet && ((canStart && !observed.volumeComesAlone) || stops))
    actions.push(...put(observed, 'StatefulSet', children.statefulSet, desired.statefulSet))
  return actions
}

/** Nothing waits for it: it says what others may do, and the database serves without. */
function disruptionBudget(observed: Observed, desired: Assessment['desired']['disruptionBudget']): Action[] {
  const { disruptionBudget: actual } = observed.children
  if (desired !== undefined) return put(observed, 'PodDisruptionBudget', actual, desired)
  if (actual === undefined || actual.metadata.deletionTimestamp !== undefined) return []
  const { name, namespace = '', uid = '' } = actual.metadata
  return [{ do: 'delete', kind: 'PodDisruptionBudget', name, namespace, uid }]
}

function inPostgres(observed: Observed, { answered, fatal, desired }: Assessment): Action[] {
  const { instance, credentials, certificate, postgres, keys } = observed
  if (answered === undefined || fatal || postgres === undefined || postgres.isOutdated) return []
  const recorded = instance.status?.volume
  // Of one on record there can be slots and subscriptions of its own.
  if (recorded === undefined && !isOwn(answered)) return [{ do: 'detach' }]
  const actions: Action[] = []
  const current = credentials.state === 'readable' && postgres.mark === credentials.mark
  const areInOrder = answered.rolesInOrder && answered.platformInOrder
  // What is taken back is not given to Postgres before that.
  if (current && !areInOrder) actions.push(...(undone(observed).length > 0 ? [] : [ensureRoles(answered)]))
  else if (current && recorded !== undefined && answered.closed !== undefined) actions.push({ do: 'open' })
  const shown = answered.certificate
  const isShown = certificate.state === 'good' && shown === certificate.fingerprint
  if (certificate.state === 'good' && shown !== undefined && !isShown) actions.push({ do: 'reload' })
  else if (awaitsReload(observed, desired) && answered.configuration.onDisk === desired.configurationDigest)
    actions.push({ do: 'reload' })
  if (keys.isChanging && isShown && shown !== undefined && !certificate.isLoaded)
    actions.push({ do: 'note-loaded', fingerprint: shown })
  return actions
}

/** A copy that has nothing of its source's is opened at once: to see its roles in order first would take two more connections. */
const ensureRoles = (answered: NonNullable<Assessment['answered']>): Action =>
  answered.closed !== undefined && isOwn(answered) ? { do: 'ensure-roles', opens: true } : { do: 'ensure-roles' }

/** The port is claimed closed, at once; its rules come into force when the database can answer for itself. */
function endpoint(observed: Observed, { desired }: Assessment): Action[] {
  const { instance, children, route, region } = observed
  if (!region) return []
  if (!route || !children.route || !desired.route)
    return [{ do: 'claim-port', preferred: instance.status?.endpoint?.port }]
  if (route.refused && instance.status?.volume === undefined)
    return [{ do: 'leave-port', port: route.port, uid: children.route.metadata.uid ?? '' }]
  return put(observed, 'ConfigMap', children.route, desired.route)
}

/** Whether it served, in the present run of Postgres and as asked, when the status was last written. */
function isSettled({ instance, isAtRest, pod }: Observed): boolean {
  const ready = conditionOf(instance.status, 'Ready')
  if (ready?.status !== 'True' || !isAtRest) return false
  return (pod?.startedAt ?? Number.POSITIVE_INFINITY) < Date.parse(ready.lastTransitionTime)
}

/** Whether Postgres is to be looked at as soon as may be: something is waited for that only it can tell. */
export function awaitsPostgres(observed: Observed, { desired }: Pick<Assessment, 'desired'>): boolean {
  const { pod, postgres, credentials, certificate, keys } = observed
  if (pod?.address === undefined || pod.terminating) return false
  // Every other server waits for this one.
  if (keys.isChanging && certificate.state === 'good' && !certificate.isLoaded) return true
  if (desired.restarts.isUnsure) return true
  const answer = presentAnswer(observed)
  const isRotating = credentials.state === 'readable' && credentials.previous.length > 0
  if (postgres === undefined && isSettled(observed) && !isRotating) return false
  if (answer === undefined || postgres?.isOutdated) return true
  const mark = credentials.state === 'readable' ? credentials.mark : undefined
  return (
    answer.state === 'refused' ||
    !answer.hasRoom ||
    answer.walHangs ||
    answer.closed !== undefined ||
    !answer.rolesInOrder ||
    answer.login === 'refused' ||
    answer.login === 'unreachable' ||
    postgres?.mark !== mark
  )
}
