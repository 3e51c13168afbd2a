/**
 * Assigns ports to databases. The operator reserves a port by creating the route with that name. So the API server
 * decides between concurrent requests. The state in memory only avoids useless attempts.
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
  /** Releases a port that a gateway cannot listen on, and avoids it for some time. */
  leave(cluster: Cluster, route: { port: number; uid: string }): Promise<void>
}

/** How long to avoid such a port. */
const avoidMs = 10 * 60_000

/** `isTaken`: whether the cache has a route with that name. */
export function createPortAllocator(isTaken: (routeName: string) => boolean, now: () => number): PortAllocator {
  /** Ports that concurrent requests are reserving, and that no cache has yet. */
  const trying = new Set<number>()
  const avoided = new Map<number, number>()

  const isFree = (port: number): boolean =>
    !trying.has(port) && !isTaken(routeName(port)) && (avoided.get(port) ?? 0) <= now()

  /** Reserves the port for the owner. @returns whether the owner has it */
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
 * Reads the cluster, because a crash may have interrupted the previous reservation. A user may also have removed the
 * route's labels, by which the caches and the gateways select it. Restores them.
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
