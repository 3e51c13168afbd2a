/**
 * The role of a member, by a label of its pod. The template has it, so that a pod which comes back while no operator runs is
 * found at once. A StatefulSet from before there were roles gets it with its next template, and nothing is selected by it
 * before that and its pod have it: an upgrade changes no selector under a pod that does not match.
 */
import { labels } from '../../../crds/index.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from './addresses.ts'

const isPrimary = (marks: Record<string, string> | undefined): boolean =>
  marks?.[labels.role] === ('primary' satisfies Role)

/** Whether every pod that the member has, or may get, is found by its role. */
export function isFoundByRole({ children: { statefulSet, pod } }: ObservedMember): boolean {
  const isMadeSo = statefulSet === undefined || isPrimary(statefulSet.spec?.template.metadata?.labels)
  return isMadeSo && (pod === undefined || isPrimary(pod.metadata.labels))
}
