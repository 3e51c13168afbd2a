/**
 * The rotation of passwords, in this order: the operator creates a new password, sets it in Postgres, and removes the
 * previous password. It starts only after Postgres has answered. At the deadline it restores the previous password, so
 * that the shown password is valid.
 */

import { type DatabaseRole, databaseRoles } from '../../../sealing/credentials.ts'
import type { Answered } from '../../member/postgres/answer.ts'
import type { EndpointAction } from '../actions.ts'
import type { ObservedEndpoint } from '../observed.ts'

type RotationFacts = Pick<ObservedEndpoint, 'credentials' | 'postgres' | 'rotations'>

/** Postgres's answer about the current passwords. Undefined if the operator has changed Postgres since the answer. */
function currentAnswer({ credentials, postgres }: RotationFacts, answered: Answered): Answered {
  if (credentials.state !== 'readable' || postgres === undefined || postgres.isOutdated) return undefined
  return postgres.passwordVersion === credentials.passwordVersion ? answered : undefined
}

/** Whether Postgres was observed to have the current passwords. */
export const isRotationApplied = (facts: RotationFacts, answered: Answered): boolean =>
  currentAnswer(facts, answered)?.rolesInOrder === true

/** Roles whose rotation is requested, and whose password is not from this rotation yet. */
const rolesToRotate = ({ credentials, rotations: { requested } }: RotationFacts): DatabaseRole[] =>
  databaseRoles.filter(
    role =>
      requested[role] !== undefined &&
      (credentials.state !== 'readable' || credentials.rotations[role] !== requested[role]),
  )

/** Roles whose rotation is no longer requested, although Postgres was not observed to have the new password. */
export function rolesToRevert({ credentials, rotations }: RotationFacts): DatabaseRole[] {
  if (credentials.state !== 'readable') return []
  const { requested, isGivenUp } = rotations
  return credentials.previous.filter(role => isGivenUp || requested[role] !== credentials.rotations[role])
}

export function rotation(observed: ObservedEndpoint, answered: Answered): EndpointAction[] {
  const { credentials, rotations } = observed
  const current = currentAnswer(observed, answered)
  if (current === undefined || credentials.state !== 'readable' || credentials.isImmutable) return []
  if (credentials.previous.length > 0) {
    if (current.rolesInOrder) return [{ do: 'forget-previous-passwords' }]
    const roles = rolesToRevert(observed)
    return roles.length > 0 ? [{ do: 'take-back-passwords', roles }] : []
  }
  const due = rolesToRotate(observed)
  if (rotations.isGivenUp || due.length === 0 || !current.rolesInOrder) return []
  return [
    { do: 'rotate-passwords', rotations: Object.fromEntries(due.map(role => [role, rotations.requested[role] ?? ''])) },
  ]
}

/** Roles whose rotation is requested, and was not observed to be done. */
export function unfinished(observed: RotationFacts, answered: Answered): DatabaseRole[] {
  const { credentials, rotations } = observed
  const current = currentAnswer(observed, answered)
  const isTaken = current?.rolesInOrder === true
  const retained = credentials.state === 'readable' && !isTaken ? credentials.previous : []
  return [...new Set([...rolesToRotate(observed), ...retained])].filter(role => rotations.requested[role] !== undefined)
}

const passwordOf = (roles: readonly DatabaseRole[]): string =>
  `the password${roles.length > 1 ? 's' : ''} of ${roles.join(' and ')}`

/** The current step of a rotation. Undefined if there is none. */
export function rotationStep(observed: RotationFacts, answered: Answered): string | undefined {
  const { credentials, rotations } = observed
  const due = rolesToRotate(observed)
  if (due.length > 0) return `creating a new value for ${passwordOf(due)}`
  if (credentials.state !== 'readable' || credentials.previous.length === 0) return undefined
  const roles = unfinished(observed, answered)
  if (roles.length > 0) return `Postgres is getting ${passwordOf(roles)}; until then the previous value is valid`
  return rotations.isGivenUp ? undefined : `removing the previous value of ${passwordOf(credentials.previous)}`
}

/** Why a rotation has failed. */
export const givenUpMessage = (roles: readonly DatabaseRole[], deadline: string): string =>
  `${passwordOf(roles)} could not be replaced by ${deadline}, and the rotation has ended: request it again`
