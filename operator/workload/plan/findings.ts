/** Findings about one Postgres: the conditions of every kind of owner. */
import type { Finding } from '../../objects/conditions.ts'

/**
 * - Ready: Postgres has answered a client, and the endpoint is open as requested.
 * - Progressing: True while an operation runs; the reason is its step. False after an operation: `Completed`, or why it
 *   failed.
 * - KeysAvailable: the installation's sealing key and authority exist.
 * - VolumeReady, CredentialsReady, EndpointReady: the state of these parts.
 * - SizeApplied: exists only while the applied size is not the requested one. Reports why; never True.
 * - VolumeGrown: exists only while the volume is smaller than requested by automatic growth or by a user in the claim.
 *   Reports why; never True.
 * - ChildrenApplied: exists only in two cases; never True. Another manager repeatedly changes an object of the
 *   instance: reports the field. Or the cluster refuses an object that a serving instance needs.
 * - ConfigurationRefused: exists only while Postgres refuses files that the operator wrote. Reports why.
 * - RestartPending: exists only while a change waits for a restart. The changes are in status.pendingRestart.
 * - ServicesReady: exists only if services are requested. Reports whether they run, or which do not, and why.
 * - ServicesConfigured: exists only if services name schemas or tables. Reports whether these existed at the last
 *   probe.
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
