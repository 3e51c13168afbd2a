/**
 * Why a claim gets no volume, as the cluster reports it. Most storage drivers report this only in Events. The operator
 * does not watch Events. It lists them only if the claim has waited longer than a claim usually waits.
 */
import { type Cluster, type Event, isClusterError, type PersistentVolumeClaim } from '../../../cluster/index.ts'
import { withoutSecrets } from '../../../controller/index.ts'
import { shortened } from '../../../values/text.ts'
import type { Instance } from '../../objects/instance.ts'

/** How long a claim waits before its Events are read. */
export const waitMs = 5_000
/** More Events than a claim ever has: Kubernetes counts repeated Events in one object. */
const most = 50
const longestMessage = 400

const seenAt = ({ lastTimestamp, eventTime, series, metadata }: Event): number =>
  Math.max(
    ...[series?.lastObservedTime, lastTimestamp, eventTime, metadata.creationTimestamp].map(
      time => Date.parse(time ?? '') || 0,
    ),
  )

/** The text of the newest Event; a Warning has priority. */
export function newestEvent(events: readonly Event[]): string | undefined {
  const warnings = events.filter(({ type }) => type === 'Warning')
  const [newest] = (warnings.length > 0 ? warnings : events).toSorted((left, right) => seenAt(right) - seenAt(left))
  if (newest === undefined) return undefined
  const { reason, message = '' } = newest
  const text = shortened(withoutSecrets(message.replace(/\s+/g, ' ').trim()), longestMessage)
  return [reason, text].filter(part => part).join(': ') || undefined
}

export async function provisioningOf(
  cluster: Cluster,
  { spec, status }: Instance,
  claim: PersistentVolumeClaim | undefined,
  now: number,
): Promise<string | undefined> {
  if (claim === undefined || status?.volume !== undefined || spec.suspended) return undefined
  if ((claim.status?.phase ?? 'Pending') !== 'Pending') return undefined
  const { namespace, uid = '', creationTimestamp = '' } = claim.metadata
  if (!(now - Date.parse(creationTimestamp) >= waitMs)) return undefined
  try {
    const { items } = await cluster.list('Event', { namespace, about: uid, limit: most })
    return newestEvent(items)
  } catch (error) {
    // Without permission to read Events, the operator still manages databases.
    if (isClusterError(error, 'Forbidden')) return undefined
    throw error
  }
}
