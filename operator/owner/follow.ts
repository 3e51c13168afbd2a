/** Which owners of one kind are looked at again when something in the cluster changes that is no owner's alone. */
import type { AnyObject } from '../../cluster/index.ts'
import { keyOf } from '../../cluster/informer/index.ts'
import { labels, systemNamespace } from '../../crds/index.ts'
import { newlyUnreachable, refusalChanged, routeName, unreachablePorts } from '../../routes/route.ts'
import type { Caches } from '../caches.ts'
import { type InstallationKeys, isInstallationKey } from '../keys.ts'
import { type OwnerKind, ownerKeyOf, ownerKindOf } from '../objects/ownership.ts'

/** The owners, by their ids, the sizes they have or are to have, and their regions. */
type Owners = {
  list(): Pick<AnyObject, 'metadata'>[]
  byIndex(index: 'id' | 'size' | 'region', value: string): readonly Pick<AnyObject, 'metadata'>[]
}

/** `later`: at low priority. `suspect`: somebody could not reach its Postgres. */
export type Hear = Record<'enqueue' | 'later' | 'suspect', (key: string) => void> & {
  /** All that gateways cannot connect to at the moment. */
  reported: (keys: ReadonlySet<string>) => void
}

export function followInstances(
  caches: Caches,
  { kind, owners }: { kind: OwnerKind; owners: Owners },
  { enqueue, later, suspect, reported }: Hear,
  waiting: { awaitingGateways: Iterable<string>; awaitingPort: Iterable<string> },
  keys: () => InstallationKeys,
  now: () => number = Date.now,
): (() => void)[] {
  let known = keys()
  const ofIndex = (index: 'id' | 'size' | 'region', value: string) => {
    for (const owner of owners.byIndex(index, value)) enqueue(keyOf(owner))
  }
  const ofPorts = (ports: readonly number[], hear: (key: string) => void) => {
    for (const port of ports) {
      const route = caches.configMaps.get({ namespace: systemNamespace, name: routeName(port) })
      for (const owner of owners.byIndex('id', route?.metadata.labels?.[labels.database] ?? '')) hear(keyOf(owner))
    }
  }
  /** Also of whom it was before somebody changed its marks. */
  const ofChild = ({ object, previous }: { object: AnyObject; previous?: AnyObject | undefined }) => {
    for (const child of previous === undefined ? [object] : [object, previous]) {
      const owner = ownerKeyOf(child)
      if (owner !== undefined && ownerKindOf(child) === kind) enqueue(owner)
      ofIndex('id', child.metadata.labels?.[labels.database] ?? '')
    }
  }
  /** In order, so that turns go by it; and after whatever somebody waits for. */
  const all = () => {
    for (const key of owners.list().map(keyOf).sort()) later(key)
  }
  return [
    caches.statefulSets.onChange(ofChild),
    caches.pods.onChange(ofChild),
    caches.services.onChange(ofChild),
    caches.networkPolicies.onChange(ofChild),
    caches.disruptionBudgets.onChange(ofChild),
    caches.claims.onChange(ofChild),
    caches.volumes.onChange(ofChild),
    caches.secrets.onChange(ofChild),
    caches.configMaps.onChange(change => {
      ofChild(change)
      if (change.type !== 'deleted') return
      for (const key of waiting.awaitingPort) enqueue(key)
    }),
    caches.sizes.onChange(({ object }) => ofIndex('size', object.metadata.name)),
    caches.regions.onChange(({ object }) => ofIndex('region', object.metadata.name)),
    caches.gateways.onChange(({ type, object, previous }) => {
      for (const key of waiting.awaitingGateways) enqueue(key)
      const lease = type === 'set' ? object : undefined
      ofPorts(refusalChanged(lease, previous), enqueue)
      if (lease !== undefined) ofPorts(newlyUnreachable(lease, previous), suspect)
      const cutOff = new Set<string>()
      ofPorts(unreachablePorts(caches.gateways.list(), now()), key => cutOff.add(key))
      reported(cutOff)
    }),
    caches.systemSecrets.onChange(({ object }) => {
      if (!isInstallationKey(object.metadata.name) || keys() === known) return
      known = keys()
      all()
    }),
  ]
}
