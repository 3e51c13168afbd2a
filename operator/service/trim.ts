/** The part of the services' Secrets that the caches keep. */
import type { Secret } from '../../cluster/index.ts'
import { withoutManagedFields } from '../../cluster/informer/index.ts'
import { parseWorkloadName } from './names.ts'

/** The caches do not keep the content of Secrets with a service's configuration: their names contain its digest. */
export function withoutConfiguration(secret: Secret): Secret {
  const trimmed = withoutManagedFields(secret)
  if (parseWorkloadName(secret.metadata.name) === undefined) return trimmed
  const { data: _, ...named } = trimmed
  return named
}
