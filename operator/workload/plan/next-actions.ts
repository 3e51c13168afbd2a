/** The next actions for a database that should exist. They are independent of each other. */

import { rolesToRevert } from '../../endpoint/plan/rotation.ts'
import type { DesiredMember } from '../../member/plan/desired.ts'
import { type Answered, isOwn, presentAnswer } from '../../member/postgres/answer.ts'
import { awaitsReload } from '../../member/postgres/plan/configuration.ts'
import { conditionOf } from '../../objects/conditions.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'
import type { Assessment } from './assessment.ts'

export const nextActions = (observed: Observed, assessment: Assessment): Action[] => [
  ...assessment.endpoint.actions,
  ...assessment.members.flatMap(({ actions }) => actions),
  ...assessment.services.actions,
  ...serving(observed, assessment),
]

/** The serving member gets the endpoint's passwords and certificate, and accepts clients. */
function serving(observed: Observed, { answered, fatal, desired, services }: Assessment): Action[] {
  const { instance, credentials, certificate, postgres, keys } = observed
  if (answered === undefined || fatal || postgres === undefined || postgres.isOutdated) return []
  const recorded = instance.status?.volume
  // The operator first removes the source's objects.
  if (recorded === undefined && !isOwn(answered)) return []
  const actions: Action[] = []
  const current = credentials.state === 'readable' && postgres.passwordVersion === credentials.passwordVersion
  const areInOrder = answered.rolesInOrder && answered.platformInOrder
  // The operator does not set a password in Postgres that it is about to revert.
  const awaitsServices = services.usesPasswords && current && credentials.previous.length > 0
  if (current && !areInOrder)
    actions.push(...(rolesToRevert(observed).length > 0 ? [] : rolesActions(answered, awaitsServices)))
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

/** Services that wait for the new passwords may also wait for their login role, so the operator still creates that. */
const rolesActions = (answered: NonNullable<Assessment['answered']>, awaitsServices: boolean): Action[] => {
  if (!awaitsServices) return [ensureRoles(answered)]
  return answered.platformInOrder ? [] : [{ do: 'ensure-roles', keepsPasswords: true }]
}

/** Opens a copy without objects of its source at once. Checking its roles first would take two more connections. */
const ensureRoles = (answered: NonNullable<Assessment['answered']>): Action =>
  answered.closed !== undefined && isOwn(answered) ? { do: 'ensure-roles', opens: true } : { do: 'ensure-roles' }

/**
 * Whether the database served when the status was last written, with the same request and in the current run of
 * Postgres.
 */
function isReconciled({ instance, isAtRest, pod }: Observed): boolean {
  const ready = conditionOf(instance.status, 'Ready')
  if (ready?.status !== 'True' || !isAtRest) return false
  return (pod?.startedAt ?? Number.POSITIVE_INFINITY) < Date.parse(ready.lastTransitionTime)
}

/**
 * Whether the database and role of the service `mcp`, in which it stores its conversations, were in order at the last
 * probe.
 */
function isStateInOrder({ services: { mcpState } }: Observed, { mcpState: seen }: NonNullable<Answered>): boolean {
  if (mcpState?.login === undefined) return seen === undefined
  return seen?.passwordVersion === mcpState.login.passwordVersion && (seen.kind === 'foreign' || seen.inOrder)
}

/** Whether the login role of the service `rest` was in order at the last probe. */
function isLoginInOrder({ services: { login } }: Observed, { authenticator }: NonNullable<Answered>): boolean {
  // A probe from before the login's removal does not report whether the login is locked.
  if (login === undefined) return authenticator === undefined
  const isKnown = authenticator?.passwordVersion === login.passwordVersion && authenticator.inOrder
  return isKnown && login.anonymousRoles.every(role => Object.hasOwn(authenticator.anonymousRoles, role))
}

/** Whether to probe Postgres as soon as possible, because only a probe can end a wait. */
export function awaitsPostgres(
  observed: Observed,
  {
    desired,
    services,
  }: {
    desired: Pick<DesiredMember, 'restarts'>
    services: Pick<Assessment['services'], 'awaitsPostgres' | 'awaitsReferences'>
  },
): boolean {
  const { pod, postgres, credentials, certificate, keys } = observed
  if (pod?.address === undefined || pod.terminating) return false
  // All other servers wait for this one.
  if (keys.isChanging && certificate.state === 'good' && !certificate.isLoaded) return true
  if (desired.restarts.isUnsure) return true
  const answer = presentAnswer(observed)
  if (answer === undefined && services.awaitsPostgres) return true
  const isRotating = credentials.state === 'readable' && credentials.previous.length > 0
  if (postgres === undefined && isReconciled(observed) && !isRotating) return false
  if (answer === undefined || postgres?.isOutdated) return true
  const passwordVersion = credentials.state === 'readable' ? credentials.passwordVersion : undefined
  return (
    answer.state === 'refused' ||
    !answer.hasFreeSpace ||
    answer.walHangs ||
    answer.closed !== undefined ||
    !answer.rolesInOrder ||
    !isLoginInOrder(observed, answer) ||
    services.awaitsReferences ||
    !isStateInOrder(observed, answer) ||
    answer.login === 'refused' ||
    answer.login === 'unreachable' ||
    postgres?.passwordVersion !== passwordVersion
  )
}
