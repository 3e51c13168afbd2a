/**
 * Reverts other managers' changes to a pod in place: to its selector labels, its images and its annotations. The
 * kubelet restarts a container whose image changes. The operator reads from the annotations whether the pod is out of
 * date.
 */

import type { Pod, StatefulSet } from '../../../../cluster/index.ts'
import type { ObservedMember } from '../../observed.ts'
import type { DesiredMember } from '../../plan/desired.ts'
import type { PodAction } from '../actions.ts'
import { templateAnnotation } from '../stateful-set.ts'

const annotationPrefix = 'espalier.dev/'

export function podRepair(
  { children, pod: facts }: ObservedMember,
  { desired: { statefulSet } }: { desired: Pick<DesiredMember, 'statefulSet'> },
): PodAction[] {
  const { pod, statefulSet: live } = children
  const template = statefulSet?.spec?.template
  if (pod === undefined || facts === undefined || facts.terminating || template === undefined) return []
  const wanted = template.metadata?.labels ?? {}
  const labels = Object.fromEntries(
    Object.entries(wanted).filter(([name, value]) => pod.metadata.labels?.[name] !== value),
  )
  const isOfTemplate = facts.template === template.metadata?.annotations?.[templateAnnotation]
  const image = isOfTemplate ? template.spec?.containers[0]?.image : facts.image
  const images = image === undefined ? {} : Object.fromEntries(facts.editedImages.map(name => [name, image]))
  const annotations = isOfRevision(live, facts.revision) ? lostAnnotations(live, pod) : {}
  if ([labels, images, annotations].every(changes => Object.keys(changes).length === 0)) return []
  const { namespace = '', name } = pod.metadata
  return [{ do: 'repair-pod', name, namespace, uid: facts.uid, labels, images, annotations }]
}

/**
 * Whether the pod was created from the StatefulSet's current template. The operator does not know the annotations of
 * other templates.
 */
function isOfRevision(set: StatefulSet | undefined, revision: string | undefined): boolean {
  const { observedGeneration, updateRevision } = set?.status ?? {}
  const isSeen = (observedGeneration ?? 0) >= (set?.metadata.generation ?? 0)
  return isSeen && revision !== undefined && revision === updateRevision
}

function lostAnnotations(set: StatefulSet | undefined, pod: Pod): Record<string, string> {
  const wanted = set?.spec?.template.metadata?.annotations ?? {}
  return Object.fromEntries(
    Object.entries(wanted).filter(
      ([name, value]) => name.startsWith(annotationPrefix) && pod.metadata.annotations?.[name] !== value,
    ),
  )
}
