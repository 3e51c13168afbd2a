/**
 * Enqueues owners of one kind after each change in the cluster that may concern them. Each kind adds its own
 * subscriptions.
 */
import type { AnyObject } from '../../cluster/index.ts'
import { type Informer, keyOf } from '../../cluster/informer/index.ts'
import { canonicalJson, labels, type Region, systemNamespace } from '../../crds/index.ts'
import { newlyUnreachable, refusalChanged, routeName, unreachablePorts } from '../../routes/route.ts'
import type { Caches } from '../caches.ts'
import type { ClockGuard } from '../clock/guard.ts'
import { type InstallationKeys, isInstallationKey } from '../keys.ts'
import { ownerKeyOf, ownerKindOf } from '../objects/ownership.ts'
import type { Enqueues, OwnerName } from './kind.ts'

type Owners = Enqueues & {
  /** Reports that a client could not connect to this owner's Postgres. */
  reportUnreachable: (key: string) => void
  /** `keys`: all owners to which gateways currently cannot connect. */
  reported: (keys: ReadonlySet<string>) => void
  awaitingGateways: Iterable<string>
  awaitingPort: Iterable<string>
}

type Options = { caches: Caches; keys: () => InstallationKeys; clock: ClockGuard; now: () => number }

/** Returns functions that unsubscribe. */
export function followOwners<K extends OwnerName>(
  { caches, keys, clock, now }: Options,
  kind: { kind: K; taskSubject: string; objects: Informer<K>; follow: (enqueues: Enqueues) => (() => void)[] },
  owners: Owners,
): (() => void)[] {
  const { objects } = kind
  const { enqueue, later } = owners
  return [
    followObjects(objects, owners),
    ...followChildren(caches, kind, owners),
    followGateways(caches, objects, now, owners),
    followKeys(caches, objects, owners, keys),
    caches.configMaps.onChange(({ type }) => {
      if (type === 'deleted') for (const key of owners.awaitingPort) enqueue(key)
    }),
    caches.sizes.onChange(({ object }) => enqueueAll(objects.byIndex('size', object.metadata.name), enqueue)),
    followRegions(caches, kind, owners),
    caches.tasks.onChange(({ object: { metadata, spec } }) => {
      if (spec.subject.kind === kind.taskSubject) enqueue(`${metadata.namespace}/${spec.subject.name}`)
    }),
    ...kind.follow(owners),
    clock.onChange(() => enqueueAll(objects.list(), later)),
  ]
}

function enqueueAll(objects: readonly Pick<AnyObject, 'metadata'>[], add: (key: string) => void): void {
  for (const object of objects) add(keyOf(object))
}

const idOf = (object: Pick<AnyObject, 'metadata'> | undefined) => object?.metadata.labels?.[labels.id]

function followObjects<K extends OwnerName>(objects: Informer<K>, { enqueue }: Enqueues): () => void {
  return objects.onChange(({ type, object, previous }) => {
    enqueue(keyOf(object))
    // If an object is deleted, or its id changes, its children may belong to a new object with the same id.
    const [before, after] = [idOf(previous), idOf(object)]
    const previousId = type === 'deleted' ? after : before === after ? undefined : before
    enqueueAll(objects.byIndex('id', previousId ?? ''), enqueue)
  })
}

function followChildren<K extends OwnerName>(
  caches: Caches,
  { kind, objects }: { kind: K; objects: Informer<K> },
  { enqueue }: Enqueues,
): (() => void)[] {
  /** Also enqueues the child's previous owner, if the child's annotations were changed. */
  const ofChild = ({ object, previous }: { object: AnyObject; previous?: AnyObject | undefined }) => {
    for (const child of previous === undefined ? [object] : [object, previous]) {
      const owner = ownerKeyOf(child)
      if (owner !== undefined && ownerKindOf(child) === kind) enqueue(owner)
      enqueueAll(objects.byIndex('id', child.metadata.labels?.[labels.database] ?? ''), enqueue)
    }
  }
  return [...caches.onChild(ofChild), caches.secrets.onChange(ofChild)]
}

/** If only a Region's slots changed, this concerns only the owners of new slots. */
function followRegions<K extends OwnerName>(
  caches: Caches,
  { kind, objects }: { kind: K; objects: Informer<K> },
  { enqueue }: Enqueues,
): () => void {
  return caches.regions.onChange(({ type, object, previous }) => {
    if (type === 'deleted' || previous === undefined || withoutTurns(object) !== withoutTurns(previous))
      return enqueueAll(objects.byIndex('region', object.metadata.name), enqueue)
    const known = new Set(previous.status?.turns?.map(canonicalJson))
    for (const turn of object.status?.turns ?? [])
      if (turn.kind === kind && !known.has(canonicalJson(turn))) enqueue(`${turn.namespace}/${turn.name}`)
  })
}

const withoutTurns = ({ metadata, spec, status }: Region): string =>
  canonicalJson({
    metadata: { ...metadata, resourceVersion: undefined },
    spec,
    status: { ...status, turns: undefined },
  })

function followGateways<K extends OwnerName>(
  caches: Caches,
  objects: Informer<K>,
  now: () => number,
  { enqueue, reportUnreachable, reported, awaitingGateways }: Owners,
): () => void {
  const ofPorts = (ports: readonly number[], add: (key: string) => void) => {
    for (const port of ports) {
      const route = caches.configMaps.get({ namespace: systemNamespace, name: routeName(port) })
      enqueueAll(objects.byIndex('id', route?.metadata.labels?.[labels.database] ?? ''), add)
    }
  }
  return caches.gateways.onChange(({ type, object, previous }) => {
    for (const key of awaitingGateways) enqueue(key)
    const lease = type === 'set' ? object : undefined
    ofPorts(refusalChanged(lease, previous), enqueue)
    if (lease !== undefined) ofPorts(newlyUnreachable(lease, previous), reportUnreachable)
    const cutOff = new Set<string>()
    ofPorts(unreachablePorts(caches.gateways.list(), now()), key => cutOff.add(key))
    reported(cutOff)
  })
}

/** A new authority concerns every owner. Enqueues them by key, so that certificates are issued in that order. */
function followKeys<K extends OwnerName>(
  caches: Caches,
  objects: Informer<K>,
  { later }: Enqueues,
  keys: () => InstallationKeys,
): () => void {
  let known = keys()
  return caches.systemSecrets.onChange(({ object }) => {
    if (!isInstallationKey(object.metadata.name) || keys() === known) return
    known = keys()
    for (const key of objects.list().map(keyOf).sort()) later(key)
  })
}
