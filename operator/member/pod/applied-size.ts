/** The size that a Postgres has now. */
import type { StatefulSet } from '../../../cluster/index.ts'
import type { PinnedSize } from '../../../crds/index.ts'
import type { Instance } from '../../objects/instance.ts'
import type { PodFacts } from './pod.ts'
import { sizeAnnotation } from './stateful-set.ts'

function parseSize(text: string | undefined): PinnedSize | undefined {
  const [, name, version] = /^(.+)-v([1-9][0-9]*)$/.exec(text ?? '') ?? []
  return name === undefined ? undefined : { name, version: Number(version) }
}

/**
 * Returns the running pod's size. Without a running pod, returns the size in the status. If an older operator recorded
 * no size there, returns the template's size, or without a template the requested size.
 */
export const appliedSizeOf = (
  { spec, status }: Instance,
  statefulSet: StatefulSet | undefined,
  pod: Pick<PodFacts, 'size' | 'address' | 'terminating'> | undefined,
): PinnedSize => {
  const running = pod?.address === undefined || pod.terminating ? undefined : parseSize(pod.size)
  const ofTemplate = parseSize(statefulSet?.spec?.template.metadata?.annotations?.[sizeAnnotation])
  return running ?? status?.size ?? ofTemplate ?? spec.size
}
