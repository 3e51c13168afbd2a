/** The conditions of a ManagedDatabase: what each says, and how they change. */
import type { Condition, ManagedDatabaseStatus } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'

/**
 * In the order in which they are listed.
 * - Ready: a client was answered, and the way in is open as asked.
 * - Progressing: True while an operation runs (the reason is its step). False: the last one's outcome; `Completed`, or
 *   why it did not.
 * - KeysAvailable: the installation's sealing key and authority are there.
 * - VolumeReady, CredentialsReady, EndpointReady: these parts are.
 * - SizeApplied: only while another size is asked for than is in force, and why; never True.
 * - ServicesReady, BackupsReady: only where services or backups are asked for, and never True yet: nothing runs them.
 * - ConfigurationRefused: only while Postgres does not take the files that the operator wrote, and why.
 * - RestartPending: only while something waits for a restart; what, is in status.pendingRestart.
 * - DeletionBlocked: only on a database being deleted, and why that does not go on.
 */
const conditionTypes = [
  'Ready',
  'Progressing',
  'KeysAvailable',
  'VolumeReady',
  'CredentialsReady',
  'EndpointReady',
  'SizeApplied',
  'ServicesReady',
  'BackupsReady',
  'ConfigurationRefused',
  'RestartPending',
  'DeletionBlocked',
] as const
export type ConditionType = (typeof conditionTypes)[number]

/** Gone as soon as a pass finds nothing of them. */
const passing: ReadonlySet<ConditionType> = new Set([
  'SizeApplied',
  'ServicesReady',
  'BackupsReady',
  'ConfigurationRefused',
  'RestartPending',
  'DeletionBlocked',
])

/** What a pass found about one aspect. */
export type Finding = { status: 'True' | 'False' | 'Unknown'; reason: string; message: string }
export type Findings = Partial<Record<ConditionType, Finding>>

export const yes = (reason: string, message: string): Finding => ({ status: 'True', reason, message })
export const no = (reason: string, message: string): Finding => ({ status: 'False', reason, message })

export const completed = 'Completed'

export const conditionOf = (status: ManagedDatabaseStatus | undefined, type: ConditionType): Condition | undefined =>
  status?.conditions?.find(condition => condition.type === type)

/**
 * The conditions after a pass. One whose status is the same keeps the time of its last transition; one that a pass
 * found nothing about stays as it was, but those that are only there while something is so.
 */
export function nextConditions(
  before: readonly Condition[],
  findings: Findings,
  observedGeneration: number | undefined,
  now: number,
): Condition[] {
  return conditionTypes.flatMap(type => {
    const previous = before.find(condition => condition.type === type)
    const finding = findings[type]
    if (finding === undefined) return previous === undefined || passing.has(type) ? [] : [previous]
    const message = finding.message.slice(0, 1000)
    const unchanged = previous?.status === finding.status
    const lastTransitionTime = unchanged ? previous.lastTransitionTime : timestamp(now)
    const generation = observedGeneration === undefined ? {} : { observedGeneration }
    return [{ type, ...finding, message, ...generation, lastTransitionTime }]
  })
}
