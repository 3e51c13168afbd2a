/**
 * A database whose passwords are in Postgres, and whose Secret is gone. New passwords would keep every client out: they are made only
 * where somebody asks for them by a rotation. Pure.
 */

import { rotationAnnotations } from '../../../crds/index.ts'
import type { ObservedEndpoint } from '../observed.ts'

type Looked = Pick<ObservedEndpoint, 'credentials' | 'instance' | 'rotations'>

const isAsked = ({ rotations: { asked, isGivenUp } }: Looked): boolean =>
  !isGivenUp && Object.values(asked).some(rotation => rotation !== undefined)

export const areCredentialsLost = (observed: Looked): boolean =>
  observed.credentials.state === 'absent' && observed.instance.status?.volume !== undefined && !isAsked(observed)

export function lostCredentialsMessage({ instance }: Looked): string {
  const remedy =
    instance.kind === 'Branch'
      ? 'put it back, or delete the branch and make another'
      : `put it back, or have new ones made by replacing one (annotation ${rotationAnnotations.app})`
  return `the Secret with the passwords is gone; Postgres takes them still, and nothing can show them: ${remedy}`
}
