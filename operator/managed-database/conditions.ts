/** The conditions of a ManagedDatabase besides those of its Postgres. */
import type { Condition, DatabasePhase, ManagedDatabaseStatus } from '../../crds/index.ts'
import { conditionsAfter, conditionTypes, type Finding } from '../objects/conditions.ts'
import type { InstanceCondition } from '../workload/plan/findings.ts'

/**
 * - BackupsReady: only if requested backups are not taken, or the last scheduled one failed.
 * - Archiving: only with the durable tier: whether WAL arrives in the archive.
 * - SecretsReady: only if Secrets for clients are requested: whether their passwords are valid.
 * - RetentionHeld: only if a backup is kept beyond its age or count because of verification.
 * - PreviousVolumesKept: only if previous volumes are kept, and what their deletion waits for.
 * - DeletionForced: only while a deletion would delete the branches as well.
 * - DeletionBlocked: only on a database being deleted, and why the deletion does not continue.
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
 * Returns the phase of a database whose namespace is no longer served: it is unknown whether an available one serves.
 */
export const phaseNotServed = ({ phase = 'creating' }: Pick<ManagedDatabaseStatus, 'phase'>): DatabasePhase =>
  phase === 'available' ? 'degraded' : phase
