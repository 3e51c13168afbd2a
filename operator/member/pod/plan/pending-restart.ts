/**
 * Changes that take effect at the next restart, and the time since which they are pending. None of them is urgent. Only
 * a maintenance window restarts the pod because of them.
 */

import { shortened } from '../../../../values/text.ts'
import { timestamp } from '../../../../values/time.ts'
import { type Finding, yes } from '../../../objects/conditions.ts'
import type { Instance, PendingRestart } from '../../../objects/instance.ts'
import type { ObservedMember } from '../../observed.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import type { Newest } from './restart-annotations.ts'

type Reason = 'Image' | 'PodTemplate' | 'Settings' | 'Configuration'
type Found = { reason: Reason; message: string }

/** Differences between the pod and a pod created now. */
function ofTemplate({ pod }: ObservedMember, { newestTemplate, image }: Newest): Found[] {
  if (pod === undefined || newestTemplate === undefined || pod.template === newestTemplate) return []
  if (pod.image !== undefined && image !== undefined && pod.image !== image)
    return [{ reason: 'Image', message: `the pod runs ${pod.image}; a new pod runs ${image}` }]
  return [{ reason: 'PodTemplate', message: 'the pod was created from an older template' }]
}

/** Changes that Postgres reports as pending. Undefined if Postgres has not answered in its current run. */
function ofSettings(observed: ObservedMember, { configurationDigest }: Newest): Found[] | undefined {
  const answer = presentAnswer(observed)
  if (answer?.state !== 'answered') return undefined
  const { pendingRestart, isMounted, refused, inForce } = answer.configuration
  const found: Found[] = []
  if (pendingRestart.length > 0)
    found.push({ reason: 'Settings', message: `changed settings require a restart: ${pendingRestart.join(', ')}` })
  if (!isMounted && refused === null && configurationDigest !== undefined && inForce !== configurationDigest)
    found.push({
      reason: 'Configuration',
      message: 'the pod cannot reload its configuration: an older release created it with copies of the files',
    })
  return found
}

/** The pending changes that the status records from an earlier answer of Postgres. */
const reportedBefore = ({ status }: Instance): PendingRestart[] =>
  (status?.pendingRestart ?? []).filter(({ reason }) => reason === 'Settings' || reason === 'Configuration')

/**
 * Whether a restart would apply a change. Undefined if only the status reports pending changes, because the status may
 * be from an old backup of the cluster. The operator then queries Postgres first.
 */
export function isWorthRestart(observed: ObservedMember, newest: Newest): boolean | undefined {
  if (observed.pod === undefined || ofTemplate(observed, newest).length > 0) return true
  const found = ofSettings(observed, newest)
  if (found !== undefined) return found.length > 0
  return reportedBefore(observed.instance).length > 0 ? undefined : false
}

export function pendingRestarts(observed: ObservedMember, desired: Newest, now: number): PendingRestart[] {
  const { pod, instance } = observed
  const before = instance.status?.pendingRestart ?? []
  if (pod === undefined || pod.terminating || instance.spec.suspended) return []
  const found = [...ofTemplate(observed, desired), ...(ofSettings(observed, desired) ?? reportedBefore(instance))]
  return found.map(({ reason, message }) => ({
    reason,
    message: shortened(message, 1000),
    since: before.find(entry => entry.reason === reason)?.since ?? timestamp(now),
  }))
}

export function restartFinding(pending: readonly PendingRestart[]): Finding | undefined {
  const [first] = pending
  if (first === undefined) return undefined
  return yes(first.reason, `pending until the next restart: ${pending.map(({ message }) => message).join('; ')}`)
}
