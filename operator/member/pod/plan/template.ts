/**
 * From which template the pod is to be made. A newer one (another release, another image, other values of the chart) is
 * taken when a restart is due and not before: a pod that comes back after a crash or on another node is the one that it
 * was, down to the digest of its image.
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

/** The image of a template as the installation named it; of an older operator's, as it stands there. */
export const referenceOf = (template: Template | undefined): string | undefined =>
  template?.metadata?.annotations?.[imageAnnotation] ?? imageOf(template)

/** What makes a template another pod's, apart from the pod's specification. */
const dueWhenChanged = [sizeAnnotation, volumeAnnotation, restartAnnotation, maintenanceAnnotation]

/** Whether the pod is to be made anew now, or is not there to be kept as it is. */
function isDue({ instance, children, pod }: ObservedMember, newest: Draft<'StatefulSet'>, live: Template): boolean {
  const { statefulSet } = children
  // Nobody has been served yet.
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
 * What was resolved stays so for as long as the installation names the image as it did. An image that another manager
 * set counts for nothing: what the pod was made from does.
 */
function imageFor({ pod }: ObservedMember, reference: string, live: Template, isEdited: boolean): string {
  const present = imageOf(live)
  if (referenceOf(live) !== reference || present === undefined) return reference
  if (isPinOf(reference, present) && !isEdited) return present
  const isOfTemplate = pod !== undefined && pod.template === live.metadata?.annotations?.[templateAnnotation]
  if (!isOfTemplate || pod.imageId === undefined || pod.editedImages.length > 0) return reference
  return pinnedReference(reference, pod.imageId) ?? reference
}

/** What others set in the template. Nobody knows what stood there before, so the newest template takes its place. */
function editsOf(observed: ObservedMember, newest: Draft<'StatefulSet'>): Drift[] {
  const { statefulSet } = observed.children
  const drifts = statefulSet === undefined ? [] : driftIn(observed, statefulSet, newest)
  return drifts.filter(({ field }) => field === 'spec.template' || field.startsWith('spec.template.'))
}

/** A template from before there were roles gets one with the next pod: to change it for that alone would write to every database. */
function withRoleOf(newest: Template, live: Template, isNew: boolean): Template {
  if (isNew || live.metadata?.labels?.[labels.role] !== undefined) return newest
  const { [labels.role]: _, ...others } = newest.metadata?.labels ?? {}
  return { ...newest, metadata: { ...newest.metadata, labels: others } }
}

/** The StatefulSet with the template that it is to have now; `newest` has the one for the next restart. */
export function withTemplate(observed: ObservedMember, newest: Draft<'StatefulSet'>): Draft<'StatefulSet'> {
  const live = observed.children.statefulSet?.spec?.template
  if (live === undefined || newest.spec === undefined) return newest
  const digest = (template: Template) => template.metadata?.annotations?.[templateAnnotation]
  const isSame = digest(live) === digest(newest.spec.template)
  const edits = editsOf(observed, newest)
  const isUnsaid = digest(live) === undefined && live.metadata?.annotations?.[imageAnnotation] !== undefined
  const isNew = mayStop(observed) && isDue(observed, newest, live)
  const takesNewest = isSame || isUnsaid || edits.length > 0 || isNew
  const { labels: marks, annotations } = live.metadata ?? {}
  const reference = referenceOf(takesNewest ? newest.spec.template : live) ?? ''
  // What the API server says of it beyond that is not ours to state.
  const kept: Template = {
    metadata: { ...(marks ? { labels: marks } : {}), annotations: { ...annotations, [imageAnnotation]: reference } },
    ...(live.spec ? { spec: live.spec } : {}),
  }
  const isEdited = edits.some(({ field }) => field.endsWith('.image'))
  const image = imageFor(observed, reference, live, isEdited)
  const template = withImage(takesNewest ? withRoleOf(newest.spec.template, live, isNew) : kept, image)
  return { ...newest, spec: { ...newest.spec, template } }
}
