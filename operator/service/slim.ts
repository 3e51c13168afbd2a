/** What the caches keep of the Secrets of services. */
import type { Secret } from '../../cluster/index.ts'
import { withoutManagedFields } from '../../cluster/informer/index.ts'
import { parseWorkloadName } from './names.ts'

/** A Secret with the configuration of a service has its content in its name: the caches do without the content itself. */
export function withoutConfiguration(secret: Secret): Secret {
  const kept = withoutManagedFields(secret)
  if (parseWorkloadName(secret.metadata.name) === undefined) return kept
  const { data: _, ...named } = kept
  return named
}
