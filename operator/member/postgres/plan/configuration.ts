/**
 * Whether Postgres runs with the files that the operator wrote. It reads them from the mount, once the kubelet has
 * updated that (up to a minute), at a reload. Values that it cannot apply are reported, and stay unapplied.
 */

import { type Finding, yes } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import type { DesiredMember } from '../../plan/desired.ts'
import { presentAnswer } from '../answer.ts'

const answeredConfiguration = (observed: ObservedMember) => {
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' ? answer.configuration : undefined
}

/** Whether a reload applies the files: now, or once they are mounted. */
export function awaitsReload(
  observed: ObservedMember,
  { configurationDigest }: Pick<DesiredMember, 'configurationDigest'>,
): boolean {
  const configuration = answeredConfiguration(observed)
  if (configuration === undefined || configurationDigest === undefined || !configuration.isMounted) return false
  const isWrong = configuration.errors.length > 0 && configuration.onDisk === configurationDigest
  return configuration.inForce !== configurationDigest && !isWrong
}

/** Errors that Postgres reports in its files; undefined for none. */
export function configurationFinding(observed: ObservedMember): Finding | undefined {
  const configuration = answeredConfiguration(observed)
  if (configuration === undefined) return undefined
  const { refused, errors } = configuration
  if (refused !== null)
    return yes('StartedWithOlderFiles', `Postgres refused its configuration and runs with the previous one: ${refused}`)
  if (errors.length === 0) return undefined
  return yes('NotTaken', `Postgres did not apply all of its configuration: ${errors.join('; ')}`)
}
