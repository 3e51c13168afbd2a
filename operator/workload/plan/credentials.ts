/** Whether the roles have the passwords of the credentials Secret. */

import { annotations, rotationAnnotations } from '../../../crds/index.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'
import type { Answered } from './health.ts'
import { areCredentialsLost, lostCredentialsMessage } from './lost-credentials.ts'
import { undone } from './rotation.ts'

export function credentialsFinding(observed: Observed, answered: Answered): Finding {
  const { credentials, postgres, instance } = observed
  if (areCredentialsLost(observed)) return no('CredentialsLost', lostCredentialsMessage(observed))
  if (credentials.state === 'absent') return no('Minting', 'the credentials are being minted')
  if (credentials.state === 'unreadable')
    return no(
      'CredentialsUnreadable',
      `${credentials.message}; put the Secret, or the key, back. Only where that is lost, delete the Secret (annotation ${annotations.force}=true), and have new ones made by replacing one (annotation ${rotationAnnotations.app})`,
    )
  const roles = credentials.previous.join(', ')
  if (undone(observed).length > 0)
    return no(
      'RotationUnsettled',
      `${roles}: the password was not replaced in time; which one is valid, Postgres will tell`,
    )
  if (roles !== '')
    return yes('Rotating', `${roles}: the password is being replaced; until that is done the one before is valid`)
  const pending = no('RolesPending', 'the roles get their passwords')
  if (answered === undefined || postgres?.mark !== credentials.mark) {
    const before = conditionOf(instance.status, 'CredentialsReady')
    const isSince = before !== undefined && before.lastTransitionTime >= credentials.mintedAt
    const stands =
      before?.status === 'True' && isSince && (postgres === undefined || postgres.mark === credentials.mark)
    return stands ? yes(before.reason, before.message) : pending
  }
  if (!answered.rolesInOrder) return pending
  if (answered.changedByUser.length === 0) return yes('InOrder', 'the roles have the passwords of the Secret')
  return yes(
    'PasswordChangedByUser',
    `${answered.changedByUser.join(', ')}: the password was changed in Postgres; the one shown here does not work`,
  )
}
