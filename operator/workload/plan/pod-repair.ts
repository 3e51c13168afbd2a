/**
 * What others changed on the pod itself, put back in place: the labels by which Service and StatefulSet find it, and images,
 * whose container its node then restarts. Nothing else of a pod that runs can be changed to its harm.
 */
import type { Action } from '../actions.ts'
import { templateAnnotation } from '../children/stateful-set.ts'
import type { Observed } from '../observed.ts'
import type { Assessment } from './assessment.ts'

export function podRepair(
  { children, pod: facts }: Observed,
  { desired: { statefulSet } }: Pick<Assessment, 'desired'>,
): Action[] {
  const { pod } = children
  const template = statefulSet?.spec?.template
  if (pod === undefined || facts === undefined || facts.terminating || template === undefined) return []
  const wanted = template.metadata?.labels ?? {}
  const labels = Object.fromEntries(
    Object.entries(wanted).filter(([name, value]) => pod.metadata.labels?.[name] !== value),
  )
  const isOfTemplate = facts.template === template.metadata?.annotations?.[templateAnnotation]
  const image = isOfTemplate ? template.spec?.containers[0]?.image : facts.image
  const images = image === undefined ? {} : Object.fromEntries(facts.editedImages.map(name => [name, image]))
  if (Object.keys(labels).length + Object.keys(images).length === 0) return []
  const { namespace = '', name } = pod.metadata
  return [{ do: 'repair-pod', name, namespace, uid: facts.uid, labels, images }]
}
