/**
 * Assigns ports to databases. A port is reserved by creating the route of that name, so the API server decides between
 * concurrent requests; the state here only avoids attempts.
 */
import type { Cluster } from '../../cluster/index.ts'
import { labels, type Region, systemNamespace } from '../../crds/index.ts'
import { portOfRoute, routeName } from '../../routes/route.ts'
import { createIfAbsent } from '../objects/create.ts'
import { type Owner, ownerUidOf } from '../objects/ownership.ts'
import { isUpToDate, stamped } from '../objects/up-to-date.ts'

import { routeDraft, routeLabels } from './route.ts'

/** Every port of a region's range is taken. */
export class RangeExhaustedError extends Error {
  override readonly name = 'RangeExhaustedError'
}

export type PortAllocator = {
  /** @throws RangeExhaustedError; ClusterError */
  claim(cluster: Cluster, owner: Owner, region: Region | undefined, preferred: number | undefined): Promise<void>
  /** Releases a port on which a gateway cannot listen, and avoids it for a while. */
  leave(cluster: Cluster, route: { port: number; uid: string }): Promise<void>
}

/** How long such a port is avoided. */
const avoidMs = 10 * 60_000

/** `isTaken`: whether a route of that name is in the cache. */
export function createPortAllocator(isTaken: (routeName: string) => boolean, now: () => number): PortAllocator {
  /** Ports that concurrent reservations are trying, which no cache has yet. */
  const trying = new Set<number>()
  const avoided = new Map<number, number>()

  const isFree = (port: number): boolean =>
    !trying.has(port) && !isTaken(routeName(port)) && (avoided.get(port) ?? 0) <= now()

  /** Whether the port is now the owner's. */
  const tryPort = async (cluster: Cluster, owner: Owner, port: number): Promise<boolean> => {
    trying.add(port)
    try {
      return await createIfAbsent(cluster, 'ConfigMap', stamped(routeDraft(owner, port, [])))
    } finally {
      trying.delete(port)
    }
  }

  return {
    claim: async (cluster, owner, region, preferred) => {
      if (region === undefined) return
      if (await hasPort(cluster, owner, preferred)) return
      const { first, last } = region.spec.gateway.ports
      const isInRange = preferred !== undefined && preferred >= first && preferred <= last
      if (isInRange && isFree(preferred) && (await tryPort(cluster, owner, preferred))) return
      for (let port = first; port <= last; port++) if (isFree(port) && (await tryPort(cluster, owner, port))) return
      throw new RangeExhaustedError(`every port from ${first} to ${last} of region ${region.metadata.name} is taken`)
    },
    leave: async (cluster, { port, uid }) => {
      avoided.set(port, now() + avoidMs)
      await cluster.delete('ConfigMap', { namespace: systemNamespace, name: routeName(port) }, { uid })
    },
  }
}

/**
 * Reads the cluster itself: a crash may have interrupted the previous reservation, or a user has removed the route's
 * labels, by which the caches and the gateways select it. They are restored.
 */
async function hasPort(cluster: Cluster, owner: Owner, preferred: number | undefined): Promise<boolean> {
  const namespace = systemNamespace
  const { items } = await cluster.list('ConfigMap', { namespace, labels: { [labels.database]: owner.id } })
  const known = preferred && (await cluster.get('ConfigMap', { namespace, name: routeName(preferred) }))
  const existing = [...items, ...(known ? [known] : [])].find(
    item => ownerUidOf(item) === owner.uid && portOfRoute(item.metadata.name) !== undefined,
  )
  if (existing === undefined) return false
  const objectLabels = routeLabels(owner)
  if (!isUpToDate(existing.metadata.labels, objectLabels))
    await cluster.replace('ConfigMap', {
      ...existing,
      metadata: { ...existing.metadata, labels: { ...existing.metadata.labels, ...objectLabels } },
    })
  return true
}
