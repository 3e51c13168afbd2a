/**
 * Whether Postgres runs with the files that the operator wrote. It reads them where they are mounted, once they have come
 * there (a kubelet takes up to a minute) and it is told to; what it cannot take is said, and stays out of force.
 */

import { type Finding, yes } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import type { DesiredMember } from '../../plan/desired.ts'
import { presentAnswer } from '../answer.ts'

const answeredConfiguration = (observed: ObservedMember) => {
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' ? answer.configuration : undefined
}

/** Whether a reload brings the files into force: by now, or once they are mounted. */
export function awaitsReload(
  observed: ObservedMember,
  { configurationDigest }: Pick<DesiredMember, 'configurationDigest'>,
): boolean {
  const configuration = answeredConfiguration(observed)
  if (configuration === undefined || configurationDigest === undefined || !configuration.isMounted) return false
  const isWrong = configuration.errors.length > 0 && configuration.onDisk === configurationDigest
  return configuration.inForce !== configurationDigest && !isWrong
}

/** What Postgres has against its files; undefined for nothing. */
export function configurationFinding(observed: ObservedMember): Finding | undefined {
  const configuration = answeredConfiguration(observed)
  if (configuration === undefined) return undefined
  const { refused, errors } = configuration
  if (refused !== null)
    return yes(
      'StartedWithOlderFiles',
      `Postgres did not take its configuration and runs with the one before: ${refused}`,
    )
  if (errors.length === 0) return undefined
  return yes('NotTaken', `Postgres does not take all of its configuration: ${errors.join('; ')}`)
}
