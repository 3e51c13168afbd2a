/** What a pass can find about one Postgres: the conditions that every owner of one has. */
import type { Finding } from '../../objects/conditions.ts'

/**
 * - Ready: a client was answered, and the way in is open as asked.
 * - Progressing: True while an operation runs (the reason is its step). False: the last one's outcome; `Completed`, or
 *   why it did not.
 * - KeysAvailable: the installation's sealing key and authority are there.
 * - VolumeReady, CredentialsReady, EndpointReady: these parts are.
 * - SizeApplied: only while another size is asked for than is in force, and why; never True.
 * - VolumeGrown: only while the volume has less than it is to grow to by itself, or than somebody raised its claim to,
 *   and why; never True.
 * - ChildrenApplied: only while another manager changes an object of the instance again and again, and which field, or while
 *   the cluster refuses what a serving instance needs; never True.
 * - ConfigurationRefused: only while Postgres does not take the files that the operator wrote, and why.
 * - RestartPending: only while something waits for a restart; what, is in status.pendingRestart.
 * - ServicesReady: only if services are requested: whether they run, or which do not and why.
 * - ServicesConfigured: only if services name schemas or tables: whether these exist, as last seen.
 */
export type InstanceCondition =
  | 'Ready'
  | 'Progressing'
  | 'KeysAvailable'
  | 'VolumeReady'
  | 'CredentialsReady'
  | 'EndpointReady'
  | 'SizeApplied'
  | 'VolumeGrown'
  | 'ChildrenApplied'
  | 'ConfigurationRefused'
  | 'RestartPending'
  | 'ServicesReady'
  | 'ServicesConfigured'

export type InstanceFindings = Partial<Record<InstanceCondition, Finding>>
