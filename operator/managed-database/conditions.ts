/** The conditions of a ManagedDatabase, except those about Postgres (workload/plan/findings.ts). */
import type { Condition, DatabasePhase, ManagedDatabaseStatus } from '../../crds/index.ts'
import { conditionsAfter, conditionTypes, type Finding } from '../objects/conditions.ts'
import type { InstanceCondition } from '../workload/plan/findings.ts'

/**
 * - BackupsReady: False if the schedule cannot run, the last scheduled backup failed, or the last verification failed.
 *   Otherwise absent.
 * - Archiving: present with the durable tier. True if WAL arrives in the archive.
 * - SecretsReady: present if connection Secrets are requested. True once the operator has written all of them.
 * - RetentionHeld: present if a backup is past its retention, and verification keeps it.
 * - PreviousVolumesKept: present while previous volumes exist. The message says what their deletion waits for.
 * - DeletionForced: present while a deletion would delete the branches as well.
 * - DeletionBlocked: present while a requested deletion cannot continue. The message says why.
 */
export type ConditionType =
  | InstanceCondition
  | 'BackupsReady'
  | 'Archiving'
  | 'SecretsReady'
  | 'RetentionHeld'
  | 'PreviousVolumesKept'
  | 'DeletionForced'
  | 'DeletionBlocked'

const types = conditionTypes<ConditionType>(
  ['Ready', 'Progressing', 'KeysAvailable', 'VolumeReady', 'CredentialsReady', 'EndpointReady'],
  [
    'SizeApplied',
    'VolumeGrown',
    'ChildrenApplied',
    'ServicesReady',
    'ServicesConfigured',
    'BackupsReady',
    'Archiving',
    'SecretsReady',
    'RetentionHeld',
    'PreviousVolumesKept',
    'ConfigurationRefused',
    'RestartPending',
    'DeletionForced',
    'DeletionBlocked',
  ],
)

export type Findings = Partial<Record<ConditionType, Finding>>

export const nextConditions = (
  before: readonly Condition[],
  findings: Findings,
  observedGeneration: number | undefined,
  now: number,
): Condition[] => conditionsAfter(types, before, findings, observedGeneration, now)

/**
 * Returns the phase of a database whose namespace the operator no longer manages. `available` becomes `degraded`: the
 * operator can no longer tell whether Postgres accepts connections.
 */
export const phaseNotServed = ({ phase = 'creating' }: Pick<ManagedDatabaseStatus, 'phase'>): DatabasePhase =>
  phase === 'available' ? 'degraded' : phase
