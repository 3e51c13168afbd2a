/**
 * The rotation of passwords: a new one is made, Postgres gets it, and the one before is forgotten, in this order. Before the
 * first step Postgres has answered; where its time runs out, the one before is put back, so that what is shown is valid.
 */

import { type DatabaseRole, databaseRoles } from '../../../sealing/credentials.ts'
import type { Answered } from '../../member/postgres/answer.ts'
import type { EndpointAction } from '../actions.ts'
import type { ObservedEndpoint } from '../observed.ts'

type RotationFacts = Pick<ObservedEndpoint, 'credentials' | 'postgres' | 'rotations'>

/** What Postgres said of the passwords as they are now; nothing was done in it since. */
function presentWord({ credentials, postgres }: RotationFacts, answered: Answered): Answered {
  if (credentials.state !== 'readable' || postgres === undefined || postgres.isOutdated) return undefined
  return postgres.mark === credentials.mark ? answered : undefined
}

/** Whether Postgres was seen to have the passwords as they are now. */
export const isRotationApplied = (looked: RotationFacts, answered: Answered): boolean =>
  presentWord(looked, answered)?.rolesInOrder === true

/** Whose password is asked to be replaced, and is not yet that of the rotation. */
const rolesToRotate = ({ credentials, rotations: { asked } }: RotationFacts): DatabaseRole[] =>
  databaseRoles.filter(
    role =>
      asked[role] !== undefined && (credentials.state !== 'readable' || credentials.rotations[role] !== asked[role]),
  )

/** Whose new password nobody asks for any more, while it is not seen that Postgres has it. */
export function rolesToRevert({ credentials, rotations }: RotationFacts): DatabaseRole[] {
  if (credentials.state !== 'readable') return []
  const { asked, isGivenUp } = rotations
  return credentials.previous.filter(role => isGivenUp || asked[role] !== credentials.rotations[role])
}

export function rotation(observed: ObservedEndpoint, answered: Answered): EndpointAction[] {
  const { credentials, rotations } = observed
  const word = presentWord(observed, answered)
  if (word === undefined || credentials.state !== 'readable' || credentials.isImmutable) return []
  if (credentials.previous.length > 0) {
    if (word.rolesInOrder) return [{ do: 'forget-previous-passwords' }]
    const roles = rolesToRevert(observed)
    return roles.length > 0 ? [{ do: 'take-back-passwords', roles }] : []
  }
  const due = rolesToRotate(observed)
  if (rotations.isGivenUp || due.length === 0 || !word.rolesInOrder) return []
  return [
    { do: 'rotate-passwords', rotations: Object.fromEntries(due.map(role => [role, rotations.asked[role] ?? ''])) },
  ]
}

/** Whose rotation is asked for and not done, as far as can be seen. */
export function unfinished(observed: RotationFacts, answered: Answered): DatabaseRole[] {
  const { credentials, rotations } = observed
  const word = presentWord(observed, answered)
  const isTaken = word?.rolesInOrder === true
  const kept = credentials.state === 'readable' && !isTaken ? credentials.previous : []
  return [...new Set([...rolesToRotate(observed), ...kept])].filter(role => rotations.asked[role] !== undefined)
}

const passwordOf = (roles: readonly DatabaseRole[]): string =>
  `the password${roles.length > 1 ? 's' : ''} of ${roles.join(' and ')}`

/** What a rotation waits for; undefined where it waits for nothing. */
export function rotationStep(observed: RotationFacts, answered: Answered): string | undefined {
  const { credentials, rotations } = observed
  const due = rolesToRotate(observed)
  if (due.length > 0) return `making a new one for ${passwordOf(due)}`
  if (credentials.state !== 'readable' || credentials.previous.length === 0) return undefined
  const roles = unfinished(observed, answered)
  if (roles.length > 0) return `Postgres gets ${passwordOf(roles)}; until then those before are valid`
  return rotations.isGivenUp ? undefined : `forgetting ${passwordOf(credentials.previous)} before the rotation`
}

/** Why a rotation has failed. */
export const givenUpMessage = (roles: readonly DatabaseRole[], deadline: string): string =>
  `${passwordOf(roles)} could not be replaced by ${deadline}, and will not be any more: ask again`
