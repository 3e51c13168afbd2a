/**
 * The role of a member, as a label of its pod. The template has the label, so a Service selects a pod that is created
 * while no operator runs. An older StatefulSet without the label gets it with its next template. A Service selects by
 * the label only after the template and the pod have it. So an upgrade never sets a selector that does not match the
 * pod.
 */
import { labels } from '../../../crds/index.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from './addresses.ts'

const isPrimary = (podLabels: Record<string, string> | undefined): boolean =>
  podLabels?.[labels.role] === ('primary' satisfies Role)

/** Whether the member's pod, and every pod that its StatefulSet may create, has the role label. */
export function isFoundByRole({ children: { statefulSet, pod } }: ObservedMember): boolean {
  const createsPrimary = statefulSet === undefined || isPrimary(statefulSet.spec?.template.metadata?.labels)
  return createsPrimary && (pod === undefined || isPrimary(pod.metadata.labels))
}
