/** Whether the roles have the passwords of the credentials Secret. */

import { annotations, rotationAnnotations } from '../../../crds/index.ts'
import type { Answered } from '../../member/postgres/answer.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import type { ObservedEndpoint } from '../observed.ts'
import { areCredentialsLost, lostCredentialsMessage } from './lost-credentials.ts'
import { rolesToRevert } from './rotation.ts'

const secretImmutable = 'SecretImmutable'

/** Whether the finding is only about passwords, and clients that know a password are still served. */
export const keepsClients = (observed: ObservedEndpoint, { reason }: Finding): boolean =>
  areCredentialsLost(observed) || reason === secretImmutable

/**
 * The Secret has the only copy of the passwords. So the operator does not delete it to create it again, as it does with
 * other children.
 */
function immutableFinding({ children }: ObservedEndpoint): Finding {
  const name = children.credentials?.metadata.name
  return no(
    secretImmutable,
    `Secret ${name}: immutable: another manager set it to true, so no password can be replaced. While no rotation is requested, ` +
      `annotate the Secret with ${annotations.force}=true, save it as YAML, remove the annotation and the field immutable from the file, ` +
      'and run kubectl replace --force -f FILE',
  )
}

export function credentialsFinding(observed: ObservedEndpoint, answered: Answered): Finding {
  const { credentials } = observed
  const found = finding(observed, answered)
  const isMute = credentials.state === 'readable' && credentials.isImmutable === true
  const isWriting = credentials.state === 'readable' && rolesToRevert(observed).length > 0
  return isMute && (found.status === 'True' || isWriting) ? immutableFinding(observed) : found
}

function finding(observed: ObservedEndpoint, answered: Answered): Finding {
  const { credentials, postgres, instance } = observed
  if (areCredentialsLost(observed)) return no('CredentialsLost', lostCredentialsMessage(observed))
  if (credentials.state === 'absent') return no('Minting', 'the credentials are being created')
  if (credentials.state === 'unreadable')
    return no(
      'CredentialsUnreadable',
      `${credentials.message}; restore the Secret or the key. Only if it is lost, delete the Secret (annotation ${annotations.force}=true), and request new passwords by a rotation (annotation ${rotationAnnotations.app})`,
    )
  const roles = credentials.previous.join(', ')
  if (rolesToRevert(observed).length > 0)
    return no(
      'RotationUnsettled',
      `${roles}: the password was not replaced in time; the next probe of Postgres shows which password is valid`,
    )
  if (roles !== '')
    return yes('Rotating', `${roles}: the password is being replaced; until then the previous one is valid`)
  const pending = no('RolesPending', 'the roles are getting their passwords')
  if (answered === undefined || postgres?.passwordVersion !== credentials.passwordVersion) {
    const before = conditionOf(instance.status, 'CredentialsReady')
    const isSince = before !== undefined && before.lastTransitionTime >= credentials.mintedAt
    const stands =
      before?.status === 'True' &&
      isSince &&
      (postgres === undefined || postgres.passwordVersion === credentials.passwordVersion)
    return stands ? yes(before.reason, before.message) : pending
  }
  if (!answered.rolesInOrder) return pending
  if (answered.changedByUser.length === 0) return yes('InOrder', 'the roles have the passwords of the Secret')
  return yes(
    'PasswordChangedByUser',
    `${answered.changedByUser.join(', ')}: a user changed the password in Postgres; the password shown here does not work`,
  )
}
