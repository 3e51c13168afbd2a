/**
 * The role of a member, as a label of its pod. The template has it, so that a pod created while no operator runs is
 * selected at once. A StatefulSet from before there were roles gets it with its next template, and nothing selects by
 * it before that and its pod have it: an upgrade never sets a selector that the pod does not match.
 */
import { labels } from '../../../crds/index.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from './addresses.ts'

const isPrimary = (podLabels: Record<string, string> | undefined): boolean =>
  podLabels?.[labels.role] === ('primary' satisfies Role)

/** Whether every pod that the member has, or may get, has its role label. */
export function isFoundByRole({ children: { statefulSet, pod } }: ObservedMember): boolean {
  const isMadeSo = statefulSet === undefined || isPrimary(statefulSet.spec?.template.metadata?.labels)
  return isMadeSo && (pod === undefined || isPrimary(pod.metadata.labels))
}
