/**
 * The template of the next pod. The operator applies a newer template (another release, another image, other chart
 * values) only when a restart is due. A pod that is created again after a crash, or on another node, is the same as
 * before, including its image's digest.
 */

import type { Draft, StatefulSet } from '../../../../cluster/index.ts'
import { labels } from '../../../../crds/index.ts'
import { driftIn } from '../../../children/drift.ts'
import type { Drift } from '../../../objects/foreign-fields.ts'
import type { ObservedMember } from '../../observed.ts'
import { isPinOf, pinnedReference } from '../image.ts'
import {
  imageAnnotation,
  maintenanceAnnotation,
  restartAnnotation,
  sizeAnnotation,
  templateAnnotation,
  volumeAnnotation,
} from '../stateful-set.ts'
import { mayStop } from './stop.ts'

type Template = NonNullable<StatefulSet['spec']>['template']

const imageOf = (template: Template | undefined): string | undefined => template?.spec?.containers[0]?.image

/** The image as the installation configures it. For a template of an older operator, the container's image. */
export const referenceOf = (template: Template | undefined): string | undefined =>
  template?.metadata?.annotations?.[imageAnnotation] ?? imageOf(template)

/** Annotations whose change requires a new pod. */
const dueWhenChanged = [sizeAnnotation, volumeAnnotation, restartAnnotation, maintenanceAnnotation]

/** Whether the pod must be created again now, or does not exist. */
function isDue({ instance, children, pod }: ObservedMember, newest: Draft<'StatefulSet'>, live: Template): boolean {
  const { statefulSet } = children
  // The database has not served a client yet.
  if (instance.status?.volume === undefined) return true
  if (newest.spec?.replicas === 0 || statefulSet?.spec?.replicas === 0) return true
  if (pod?.isStuck) return true
  const [desired, present] = [newest.spec?.template.metadata?.annotations, live.metadata?.annotations]
  return dueWhenChanged.some(name => desired?.[name] !== present?.[name])
}

function withImage(template: Template, image: string): Template {
  const { spec } = template
  if (spec === undefined) return template
  const of = <C extends { image?: string }>(containers: C[]): C[] =>
    containers.map(container => ({ ...container, image }))
  return {
    ...template,
    spec: {
      ...spec,
      containers: of(spec.containers),
      ...(spec.initContainers ? { initContainers: of(spec.initContainers) } : {}),
    },
  }
}

/**
 * The template keeps a digest as long as the installation's reference to the image is the same. The operator ignores an
 * image that another manager set.
 */
function imageFor({ pod }: ObservedMember, reference: string, live: Template, isEdited: boolean): string {
  const present = imageOf(live)
  if (referenceOf(live) !== reference || present === undefined) return reference
  if (isPinOf(reference, present) && !isEdited) return present
  const isOfTemplate = pod !== undefined && pod.template === live.metadata?.annotations?.[templateAnnotation]
  if (!isOfTemplate || pod.imageId === undefined || pod.editedImages.length > 0) return reference
  return pinnedReference(reference, pod.imageId) ?? reference
}

/**
 * Other managers' changes to the template. The previous values are unknown, so the newest template replaces the changed
 * one.
 */
function editsOf(observed: ObservedMember, newest: Draft<'StatefulSet'>): Drift[] {
  const { statefulSet } = observed.children
  const drifts = statefulSet === undefined ? [] : driftIn(observed, statefulSet, newest)
  return drifts.filter(({ field }) => field === 'spec.template' || field.startsWith('spec.template.'))
}

/**
 * An older template gets the role label with the next pod. Adding the label earlier would update every database's
 * StatefulSet after an upgrade.
 */
function withRoleOf(newest: Template, live: Template, isNew: boolean): Template {
  if (isNew || live.metadata?.labels?.[labels.role] !== undefined) return newest
  const { [labels.role]: _, ...others } = newest.metadata?.labels ?? {}
  return { ...newest, metadata: { ...newest.metadata, labels: others } }
}

/**
 * Returns the StatefulSet with the template that the operator applies now: the template of `newest`, or the existing
 * template.
 */
export function withTemplate(observed: ObservedMember, newest: Draft<'StatefulSet'>): Draft<'StatefulSet'> {
  const live = observed.children.statefulSet?.spec?.template
  if (live === undefined || newest.spec === undefined) return newest
  const digest = (template: Template) => template.metadata?.annotations?.[templateAnnotation]
  const isSame = digest(live) === digest(newest.spec.template)
  const edits = editsOf(observed, newest)
  const lacksDigest = digest(live) === undefined && live.metadata?.annotations?.[imageAnnotation] !== undefined
  const isNew = mayStop(observed) && isDue(observed, newest, live)
  const usesNewest = isSame || lacksDigest || edits.length > 0 || isNew
  const { labels: objectLabels, annotations } = live.metadata ?? {}
  const reference = referenceOf(usesNewest ? newest.spec.template : live) ?? ''
  // Drops the other fields that the API server returned.
  const retained: Template = {
    metadata: {
      ...(objectLabels ? { labels: objectLabels } : {}),
      annotations: { ...annotations, [imageAnnotation]: reference },
    },
    ...(live.spec ? { spec: live.spec } : {}),
  }
  const isEdited = edits.some(({ field }) => field.endsWith('.image'))
  const image = imageFor(observed, reference, live, isEdited)
  const template = withImage(usesNewest ? withRoleOf(newest.spec.template, live, isNew) : retained, image)
  return { ...newest, spec: { ...newest.spec, template } }
}
