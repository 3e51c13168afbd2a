/** What to do next for a database that is to exist. Everything named at once is independent of the rest. */

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

/** The member that serves gets the endpoint's passwords and certificate, and accepts clients. */
function serving(observed: Observed, { answered, fatal, desired, services }: Assessment): Action[] {
  const { instance, credentials, certificate, postgres, keys } = observed
  if (answered === undefined || fatal || postgres === undefined || postgres.isOutdated) return []
  const recorded = instance.status?.volume
  // What is its source's is removed first.
  if (recorded === undefined && !isOwn(answered)) return []
  const actions: Action[] = []
  const current = credentials.state === 'readable' && postgres.mark === credentials.mark
  const areInOrder = answered.rolesInOrder && answered.platformInOrder
  // What is taken back is not given to Postgres before that.
  const awaitsServices = services.holdsPasswords && current && credentials.previous.length > 0
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

/** Services that await the new passwords may themselves be waiting for a role that they log in as. */
const rolesActions = (answered: NonNullable<Assessment['answered']>, awaitsServices: boolean): Action[] => {
  if (!awaitsServices) return [ensureRoles(answered)]
  return answered.platformInOrder ? [] : [{ do: 'ensure-roles', keepsPasswords: true }]
}

/** A copy that has nothing of its source's is opened at once: to see its roles in order first would take two more connections. */
const ensureRoles = (answered: NonNullable<Assessment['answered']>): Action =>
  answered.closed !== undefined && isOwn(answered) ? { do: 'ensure-roles', opens: true } : { do: 'ensure-roles' }

/** Whether it served, in the present run of Postgres and as asked, when the status was last written. */
function isSettled({ instance, isAtRest, pod }: Observed): boolean {
  const ready = conditionOf(instance.status, 'Ready')
  if (ready?.status !== 'True' || !isAtRest) return false
  return (pod?.startedAt ?? Number.POSITIVE_INFINITY) < Date.parse(ready.lastTransitionTime)
}

/** Whether where the service `mcp` keeps its conversations was seen as it is to be. */
function isStateInOrder({ services: { mcpState } }: Observed, { mcpState: seen }: NonNullable<Answered>): boolean {
  if (mcpState?.login === undefined) return seen === undefined
  return seen?.mark === mcpState.login.mark && (seen.kind === 'foreign' || seen.inOrder)
}

/** Whether the role by which the service `rest` logs in was seen as it is to be. */
function isLoginInOrder({ services: { login } }: Observed, { authenticator }: NonNullable<Answered>): boolean {
  // What was asked of a login that nobody wants any more does not say whether it is locked.
  if (login === undefined) return authenticator === undefined
  const isKnown = authenticator?.mark === login.mark && authenticator.inOrder
  return isKnown && login.anonymousRoles.every(role => role in authenticator.anonymousRoles)
}

/** Whether Postgres is to be looked at as soon as may be: something is waited for that only it can tell. */
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
  // Every other server waits for this one.
  if (keys.isChanging && certificate.state === 'good' && !certificate.isLoaded) return true
  if (desired.restarts.isUnsure) return true
  const answer = presentAnswer(observed)
  if (answer === undefined && services.awaitsPostgres) return true
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
    !isLoginInOrder(observed, answer) ||
    services.awaitsReferences ||
    !isStateInOrder(observed, answer) ||
    answer.login === 'refused' ||
    answer.login === 'unreachable' ||
    postgres?.mark !== mark
  )
}
