/** The conditions of a Branch. */
import type { Condition } from '../../../crds/index.ts'
import { conditionsAfter, conditionTypes } from '../../objects/conditions.ts'
import type { InstanceCondition, InstanceFindings } from '../../workload/plan/findings.ts'

const types = conditionTypes<InstanceCondition>(
  ['Ready', 'Progressing', 'KeysAvailable', 'VolumeReady', 'CredentialsReady', 'EndpointReady'],
  ['VolumeGrown', 'ChildrenApplied', 'ConfigurationRefused', 'RestartPending', 'ServicesReady', 'ServicesConfigured'],
)

export const nextConditions = (
  before: readonly Condition[],
  findings: InstanceFindings,
  observedGeneration: number | undefined,
  now: number,
): Condition[] => conditionsAfter(types, before, findings, observedGeneration, now)
