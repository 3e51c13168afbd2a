/** The conditions of a ManagedDatabase: what each says, beside those of its Postgres. */
import type { Condition } from '../../crds/index.ts'
import { conditionsAfter, conditionTypes, type Finding } from '../objects/conditions.ts'
import type { InstanceCondition } from '../workload/plan/findings.ts'

/**
 * - ServicesReady: only where services are asked for, and never True yet: nothing runs them.
 * - BackupsReady: only where backups are asked for that are not taken, or the last scheduled one failed.
 * - SecretsReady: only where Secrets for clients are asked for: whether they hold what is valid.
 * - RetentionHeld: only where a backup is kept beyond its age or count because of verification.
 * - PreviousVolumesKept: only where volumes of before restores are kept, and what they wait for.
 * - DeletionForced: only while a deletion would delete the branches as well.
 * - DeletionBlocked: only on a database being deleted, and why that does not go on.
 */
export type ConditionType =
  | InstanceCondition
  | 'ServicesReady'
  | 'BackupsReady'
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
    'BackupsReady',
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
