/**
 * A database whose passwords are in Postgres, but whose Secret does not exist. New passwords would lock out every
 * client. So the operator creates them only if a user requests a rotation. Pure.
 */

import { rotationAnnotations } from '../../../crds/index.ts'
import type { ObservedEndpoint } from '../observed.ts'

type CredentialsFacts = Pick<ObservedEndpoint, 'credentials' | 'instance' | 'rotations'>

const isRequested = ({ rotations: { requested, isGivenUp } }: CredentialsFacts): boolean =>
  !isGivenUp && Object.values(requested).some(rotation => rotation !== undefined)

export const areCredentialsLost = (observed: CredentialsFacts): boolean =>
  observed.credentials.state === 'absent' && observed.instance.status?.volume !== undefined && !isRequested(observed)

export function lostCredentialsMessage({ instance }: CredentialsFacts): string {
  const remedy =
    instance.kind === 'Branch'
      ? 'restore it, or delete the branch and create it again'
      : `restore it, or request new passwords by a rotation (annotation ${rotationAnnotations.app})`
  return `the Secret with the passwords does not exist; Postgres still accepts these passwords, but the operator cannot show them: ${remedy}`
}
