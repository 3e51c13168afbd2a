/**
 * Gives databases their ports. A port is claimed by creating the route of that name, so the API server decides between
 * two that want one; what stands here only saves tries.
 */
import type { Cluster } from '../../cluster/index.ts'
import { labels, type Region, systemNamespace } from '../../crds/index.ts'
import { portOfRoute, routeName } from '../../routes/route.ts'
import { createIfAbsent } from '../objects/create.ts'
import { type Owner, ownerUidOf } from '../objects/ownership.ts'
import { isUpToDate, stamped } from '../objects/up-to-date.ts'

import { routeDraft, routeMarks } from './route.ts'

/** Every port of a region's range is taken. */
export class RangeExhaustedError extends Error {
  override readonly name = 'RangeExhaustedError'
}

export type PortAllocator = {
  /** @throws RangeExhaustedError; ClusterError */
  claim(cluster: Cluster, owner: Owner, region: Region | undefined, preferred: number | undefined): Promise<void>
  /** Gives up a port that a gateway cannot listen on, and does not come back to it for a while. */
  leave(cluster: Cluster, route: { port: number; uid: string }): Promise<void>
}

/** How long a port is avoided that a gateway could not listen on. */
const avoidMs = 10 * 60_000

/** `isTaken`: whether a route of that name is in the cache. */
export function createPortAllocator(isTaken: (routeName: string) => boolean, now: () => number): PortAllocator {
  /** Ports that claims under way are trying, which no cache shows yet. */
  const trying = new Set<number>()
  const avoided = new Map<number, number>()

  const isFree = (port: number): boolean =>
    !trying.has(port) && !isTaken(routeName(port)) && (avoided.get(port) ?? 0) <= now()

  /** Whether the port is the owner's now. */
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
      if (await holdsOne(cluster, owner, preferred)) return
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
 * Looks at the cluster itself: a crash may have cut off the claim before this one, or somebody has taken the labels off the route,
 * by which the caches and the gateways find it. It gets them back.
 */
async function holdsOne(cluster: Cluster, owner: Owner, preferred: number | undefined): Promise<boolean> {
  const namespace = systemNamespace
  const { items } = await cluster.list('ConfigMap', { namespace, labels: { [labels.database]: owner.id } })
  const known = preferred && (await cluster.get('ConfigMap', { namespace, name: routeName(preferred) }))
  const held = [...items, ...(known ? [known] : [])].find(
    item => ownerUidOf(item) === owner.uid && portOfRoute(item.metadata.name) !== undefined,
  )
  if (held === undefined) return false
  const marks = routeMarks(owner)
  if (!isUpToDate(held.metadata.labels, marks))
    await cluster.replace('ConfigMap', {
      ...held,
      metadata: { ...held.metadata, labels: { ...held.metadata.labels, ...marks } },
    })
  return true
}
