/** Findings about one Postgres: the conditions of every kind of owner. */
import type { Finding } from '../../objects/conditions.ts'

/**
 * - Ready: a client was answered, and the endpoint is open as requested.
 * - Progressing: True while an operation runs (the reason is its step). False: the last one's outcome; `Completed`, or
 *   why it failed.
 * - KeysAvailable: the installation's sealing key and authority exist.
 * - VolumeReady, CredentialsReady, EndpointReady: these parts are.
 * - SizeApplied: only while the applied size is not the requested one, and why; never True.
 * - VolumeGrown: only while the volume has less than its automatic growth, or a manually raised claim, requests, and
 *   why; never True.
 * - ChildrenApplied: only while another manager repeatedly changes an object of the instance, and which field, or while
 *   the cluster refuses an object that a serving instance needs; never True.
 * - ConfigurationRefused: only while Postgres refuses the files that the operator wrote, and why.
 * - RestartPending: only while a change waits for a restart; the changes are in status.pendingRestart.
 * - ServicesReady: only if services are requested: whether they run, or which do not and why.
 * - ServicesConfigured: only if services name schemas or tables: whether these exist, as last probed.
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
