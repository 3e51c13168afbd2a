/**
 * An owner's objects in the cluster: its children of every kind, and objects with its id that belong to no existing
 * owner. Reads the caches.
 */
import type { AnyObject, KindName, Kinds, PersistentVolume, Pod } from '../../cluster/index.ts'
import { deletedDatabaseComponent, labels, systemNamespace } from '../../crds/index.ts'
import { routeComponent } from '../../routes/route.ts'
import type { Caches } from '../caches.ts'
import { ownerKeyOf, ownerUidOf } from '../objects/ownership.ts'
import { isOrphan } from './orphans.ts'

/**
 * The kinds of an owner's children, and the stage of a deletion in which each is deleted. Pods are handled separately.
 * For a new kind, add a line here, a line in caches/children.ts, and the field that ownedObjects() then lacks. Its
 * rights are in the chart's operator-rbac.yaml.
 */
export const childKinds = [
  { kind: 'PersistentVolumeClaim', field: 'claims', stage: 'volume' },
  { kind: 'Secret', field: 'secrets', stage: 'rest' },
  { kind: 'StatefulSet', field: 'statefulSets', stage: 'workload' },
  { kind: 'Deployment', field: 'deployments', stage: 'workload' },
  { kind: 'Service', field: 'services', stage: 'workload' },
  { kind: 'NetworkPolicy', field: 'networkPolicies', stage: 'rest' },
  { kind: 'PodDisruptionBudget', field: 'disruptionBudgets', stage: 'rest' },
  { kind: 'ConfigMap', field: 'configurations', stage: 'workload' },
  { kind: 'ConfigMap', field: 'routes', stage: 'rest' },
] as const satisfies { kind: KindName; field: string; stage: 'workload' | 'volume' | 'rest' }[]
type ChildKind = (typeof childKinds)[number]

/**
 * All existing objects of the owner, in any incarnation, because a deletion must delete them. Also objects with its id
 * that belong to no existing database: their database was recreated as this one.
 */
type Children = { [C in ChildKind as C['field']]: Kinds[C['kind']][] }

export type OwnedObjects = Children & { pods: Pod[]; volumes: PersistentVolume[] }

/** Which of the owner's objects are deleted in a stage, by kind. */
export const ownedAt = (
  owned: Children,
  stage: ChildKind['stage'],
): { kind: KindName; objects: readonly AnyObject[] }[] =>
  childKinds
    .filter(child => child.stage === stage)
    .map(({ kind, field }) => ({ kind, objects: owned[field] as readonly AnyObject[] }))

/**
 * Objects with the owner's uid label, and objects with its id that belong to no existing owner. A label in another
 * namespace does not count. Without an id: only objects with the owner's uid label.
 */
export function ownedObjects(
  caches: Caches,
  namespace: string,
  { uid, id }: { uid: string; id: string | undefined },
): OwnedObjects {
  const ofUs = <T extends AnyObject>(informer: {
    byIndex(name: 'owner' | 'database', value: string): readonly T[]
  }): T[] => {
    const orphans =
      id === undefined ? [] : informer.byIndex('database', id).filter(object => isOrphan(caches, { uid, id }, object))
    return [...informer.byIndex('owner', uid), ...orphans]
  }
  const here = <T extends AnyObject>(objects: readonly T[]): T[] =>
    objects.filter(object => object.metadata.namespace === namespace)
  const configMaps = ofUs(caches.configMaps)
  const isRoute = (map: (typeof configMaps)[number]) => map.metadata.labels?.[labels.component] === routeComponent
  // This object is kept when the database is deleted, even in the installation's namespace.
  const isDeletionRecord = (map: (typeof configMaps)[number]) =>
    map.metadata.labels?.[labels.component] === deletedDatabaseComponent
  // All routes are in one namespace, and a database in another namespace may have the same id.
  const isOfHere = (map: (typeof configMaps)[number]) =>
    ownerUidOf(map) === uid || ownerKeyOf(map)?.startsWith(`${namespace}/`) !== false
  return {
    statefulSets: here(ofUs(caches.statefulSets)),
    pods: [],
    deployments: here(ofUs(caches.deployments)),
    services: here(ofUs(caches.services)),
    networkPolicies: here(ofUs(caches.networkPolicies)),
    disruptionBudgets: here(ofUs(caches.disruptionBudgets)),
    configurations: here(configMaps).filter(map => !isRoute(map) && !isDeletionRecord(map)),
    claims: here(ofUs(caches.claims)),
    secrets: here(ofUs(caches.secrets.within(namespace))),
    volumes: ofUs(caches.volumes).filter(({ spec }) => spec?.claimRef?.namespace === namespace),
    routes: configMaps.filter(map => map.metadata.namespace === systemNamespace && isRoute(map) && isOfHere(map)),
  }
}
