/** The Events and metrics of a status change. Pure. */
import type { ManagedDatabaseStatus } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'

type Event = { type: 'Normal' | 'Warning'; reason: string; message: string }

const eventReasons: Partial<Record<NonNullable<ManagedDatabaseStatus['phase']>, string>> = {
  available: 'Available',
  suspended: 'Suspended',
  degraded: 'Degraded',
  failed: 'Failed',
  deleting: 'Deleting',
}

/** A size change restarts Postgres and disconnects clients, so an Event reports the restart. */
function restartEvents(before: ManagedDatabaseStatus | undefined, after: ManagedDatabaseStatus): Event[] {
  const [was, is] = [conditionOf(before, 'SizeApplied'), conditionOf(after, 'SizeApplied')]
  if (is?.reason !== 'Restarting' || was?.reason === 'Restarting') return []
  return [{ type: 'Normal', reason: 'Restarting', message: is.message }]
}

/** Events of a volume that grows automatically. */
function volumeEvents(before: ManagedDatabaseStatus | undefined, after: ManagedDatabaseStatus): Event[] {
  const [was, is] = [before?.storage, after.storage]
  if (is === undefined) return []
  const events: Event[] = []
  if (was !== undefined && is.capacity !== was.capacity)
    events.push({
      type: 'Normal',
      reason: 'VolumeHasGrown',
      message: `the volume grew from ${was.capacity} to ${is.capacity}`,
    })
  if (is.growsTo !== undefined && is.growsTo !== was?.growsTo)
    events.push({
      type: 'Normal',
      reason: 'VolumeGrows',
      message: `the volume is growing from ${is.capacity} to ${is.growsTo}`,
    })
  return events
}

/** Events of previous volumes whose claim is deleted. */
function previousVolumeEvents(before: ManagedDatabaseStatus | undefined, after: ManagedDatabaseStatus): Event[] {
  const present = new Set(after.previous?.map(({ uid }) => uid))
  return (before?.previous ?? [])
    .filter(({ uid }) => !present.has(uid))
    .map(({ incarnation }) => ({
      type: 'Normal',
      reason: 'PreviousVolumeDeleted',
      message: `previous volume ${incarnation} is deleted`,
    }))
}

/** The Events of a status change. */
export function eventsOf(before: ManagedDatabaseStatus | undefined, after: ManagedDatabaseStatus): Event[] {
  const events: Event[] = []
  const { operation, phase } = after
  if (operation !== undefined && operation.taskId !== before?.operation?.taskId)
    events.push({ type: 'Normal', reason: 'OperationStarted', message: `operation ${operation.name} started` })
  const reason = phase === undefined ? undefined : eventReasons[phase]
  if (phase !== undefined && reason !== undefined && phase !== before?.phase) {
    const isBad = phase === 'degraded' || phase === 'failed'
    const ready = conditionOf(after, 'Ready')
    events.push({ type: isBad ? 'Warning' : 'Normal', reason, message: ready?.message ?? phase })
  }
  events.push(...restartEvents(before, after), ...volumeEvents(before, after), ...previousVolumeEvents(before, after))
  for (const type of [
    'VolumeReady',
    'Archiving',
    'SizeApplied',
    'VolumeGrown',
    'ChildrenApplied',
    'CredentialsReady',
    'DeletionBlocked',
    'KeysAvailable',
    'PreviousVolumesKept',
    'RetentionHeld',
    'ServicesReady',
    'ServicesConfigured',
  ] as const) {
    const [was, is] = [conditionOf(before, type), conditionOf(after, type)]
    if (is === undefined || is.reason === was?.reason || transientReasons.has(is.reason)) continue
    if (is.status === 'False' || type === 'DeletionBlocked' || warningReasons.has(is.reason))
      events.push({ type: 'Warning', reason: is.reason, message: is.message })
  }
  return events
}

/** Reasons of conditions that are True and still need a user's attention. */
const warningReasons = new Set([
  'PasswordChangedByUser',
  'AnonymousRoleMissing',
  'AnonymousRoleRefused',
  'AwaitsAgreement',
  'NewestVerified',
  'BeforeFailedVerification',
])

/** Reasons of intermediate steps, which need no warning. */
const transientReasons = new Set([
  'Pending',
  'Minting',
  'RolesPending',
  'RollingOut',
  'RestartPending',
  'NotRunning',
  'Unknown',
  'Suspended',
  'Growing',
  'AwaitsResume',
  'Restarting',
  'Deleting',
])

export type EndedOperation = { name: string; outcome: string; seconds: number }

/** The operation that this change of status ends. */
export function endedOperation(
  before: ManagedDatabaseStatus | undefined,
  after: ManagedDatabaseStatus,
  now: number,
): EndedOperation | undefined {
  const { operation } = after
  const progressing = conditionOf(after, 'Progressing')
  if (operation === undefined || progressing?.status !== 'False') return undefined
  const isNew = before?.operation?.taskId !== operation.taskId || conditionOf(before, 'Progressing')?.status !== 'False'
  if (!isNew) return undefined
  const seconds = Math.max(0, (now - Date.parse(operation.startedAt)) / 1000)
  return { name: operation.name, outcome: progressing.reason, seconds }
}
