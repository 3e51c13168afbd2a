/**
 * Changes that take effect at the next restart, and since when they are pending. None is urgent, and none causes a
 * restart.
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

/** Differences between the pod and one created now. */
function ofTemplate({ pod }: ObservedMember, { newestTemplate, image }: Newest): Found[] {
  if (pod === undefined || newestTemplate === undefined || pod.template === newestTemplate) return []
  if (pod.image !== undefined && image !== undefined && pod.image !== image)
    return [{ reason: 'Image', message: `the pod runs ${pod.image}; a new pod runs ${image}` }]
  return [{ reason: 'PodTemplate', message: 'the pod was created from an older template' }]
}

/** Postgres's own report; undefined if it has not been queried in its present run. */
function ofSettings(observed: ObservedMember, { configurationDigest }: Newest): Found[] | undefined {
  const answer = presentAnswer(observed)
  if (answer?.state !== 'answered') return undefined
  const { pendingRestart, isMounted, refused, inForce } = answer.configuration
  const found: Found[] = []
  if (pendingRestart.length > 0)
    found.push({ reason: 'Settings', message: `changed settings that require a restart: ${pendingRestart.join(', ')}` })
  if (!isMounted && refused === null && configurationDigest !== undefined && inForce !== configurationDigest)
    found.push({
      reason: 'Configuration',
      message: 'the pod was created before configuration could be reloaded: it runs with copies made at its start',
    })
  return found
}

/** Postgres's own report, as last recorded. */
const reportedBefore = ({ status }: Instance): PendingRestart[] =>
  (status?.pendingRestart ?? []).filter(({ reason }) => reason === 'Settings' || reason === 'Configuration')

/**
 * Whether a restart would apply anything: undefined if only the record says so. The record may be old, from a backup of
 * the cluster, so Postgres is queried first.
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
  return yes(first.reason, `${pending.map(({ message }) => message).join('; ')}. It takes effect at the next restart`)
}
