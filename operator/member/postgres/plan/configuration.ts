/**
 * Whether Postgres runs with the files that the operator wrote. The kubelet updates the mount within a minute. Postgres
 * then reads the files at a reload. If Postgres cannot apply a value, the operator reports the error.
 */

import { type Finding, yes } from '../../../objects/conditions.ts'
import type { ObservedMember } from '../../observed.ts'
import type { DesiredMember } from '../../plan/desired.ts'
import { presentAnswer } from '../answer.ts'

const answeredConfiguration = (observed: ObservedMember) => {
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' ? answer.configuration : undefined
}

/** Whether the operator should reload Postgres to apply the files, now or when they are mounted. */
export function awaitsReload(
  observed: ObservedMember,
  { configurationDigest }: Pick<DesiredMember, 'configurationDigest'>,
): boolean {
  const configuration = answeredConfiguration(observed)
  if (configuration === undefined || configurationDigest === undefined || !configuration.isMounted) return false
  const isWrong = configuration.errors.length > 0 && configuration.onDisk === configurationDigest
  return configuration.inForce !== configurationDigest && !isWrong
}

/** Errors that Postgres reports in its files. Undefined if there are none. */
export function configurationFinding(observed: ObservedMember): Finding | undefined {
  const configuration = answeredConfiguration(observed)
  if (configuration === undefined) return undefined
  const { refused, errors } = configuration
  if (refused !== null)
    return yes('StartedWithOlderFiles', `Postgres refused its configuration and runs with the previous one: ${refused}`)
  if (errors.length === 0) return undefined
  return yes('NotTaken', `Postgres did not apply all of its configuration: ${errors.join('; ')}`)
}
