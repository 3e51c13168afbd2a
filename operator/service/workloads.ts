/** What the Deployments and the Service of a service report about its pods. Pure. */
import type { Deployment, Service } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'

/** The digest of the configuration whose pods the Service selects. */
export const selectedBy = (service: Service | undefined): string | undefined =>
  service?.spec?.selector?.[labels.configuration]

/**
 * The number of pods of a Deployment that serve; 0 until the controller has observed the Deployment. Later generations
 * differ only in the number of pods, because the template never changes.
 */
export function readyPods({ metadata, status }: Deployment): number {
  if (metadata.deletionTimestamp !== undefined) return 0
  if ((status?.observedGeneration ?? 0) < 1) return 0
  return status?.readyReplicas ?? 0
}

export const imageOf = ({ spec }: Deployment): string | undefined => spec?.template.spec?.containers[0]?.image
