/**
 * What the cluster says of a claim that gets no volume: of most storage only its Events tell. Nobody follows Events, so they
 * are asked for, and only where the wait is longer than any that ends well.
 */
import { type Cluster, type Event, isClusterError, type PersistentVolumeClaim } from '../../../cluster/index.ts'
import { withoutSecrets } from '../../../controller/index.ts'
import type { Instance } from '../../objects/instance.ts'

/** How long a claim may wait before it is asked why. */
export const patienceMs = 5_000
/** More Events than a claim has; their series are counted, not repeated. */
const most = 50
const longestMessage = 400

const seenAt = ({ lastTimestamp, eventTime, series, metadata }: Event): number =>
  Math.max(
    ...[series?.lastObservedTime, lastTimestamp, eventTime, metadata.creationTimestamp].map(
      time => Date.parse(time ?? '') || 0,
    ),
  )

/** The text of the newest Event, of Warnings if there are any. */
export function newestEvent(events: readonly Event[]): string | undefined {
  const warnings = events.filter(({ type }) => type === 'Warning')
  const [newest] = (warnings.length > 0 ? warnings : events).toSorted((left, right) => seenAt(right) - seenAt(left))
  if (newest === undefined) return undefined
  const { reason, message = '' } = newest
  const text = withoutSecrets(message.replace(/\s+/g, ' ').trim()).slice(0, longestMessage)
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
  if (!(now - Date.parse(creationTimestamp) >= patienceMs)) return undefined
  try {
    const { items } = await cluster.list('Event', { namespace, about: uid, limit: most })
    return newestEvent(items)
  } catch (error) {
    // An operator that may not read Events manages databases all the same.
    if (isClusterError(error, 'Forbidden')) return undefined
    throw error
  }
}
