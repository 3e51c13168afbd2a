/** What the caches keep of the Secrets of services. */
import type { Secret } from '../../cluster/index.ts'
import { withoutManagedFields } from '../../cluster/informer/index.ts'
import { parseWorkloadName } from './names.ts'

/**
 * The name of a Secret with the configuration of a service contains the digest of its content: the caches do not keep
 * the content.
 */
export function withoutConfiguration(secret: Secret): Secret {
  const trimmed = withoutManagedFields(secret)
  if (parseWorkloadName(secret.metadata.name) === undefined) return trimmed
  const { data: _, ...named } = trimmed
  return named
}
