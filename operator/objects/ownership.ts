/**
 * Who a child belongs to. Every child carries its database's uid and key as annotations, and the database's id as a
 * label. None has an owner reference: a garbage collector that is asked for a foreground deletion, or that meets a uid
 * from before a cluster was restored, would take the data at once, and our own teardown is the only collector. Earlier
 * versions gave references; they are still understood, and taken off. A name alone proves nothing: an object that is
 * not marked as ours is never changed and never deleted.
 */
import { type AnyObject, type Cluster, type KindName, kindNames } from '../../cluster/index.ts'
import {
  branchHostLabel,
  group,
  hostLabel,
  labels,
  managedByEspalier,
  type ObjectMeta,
  type OwnerReference,
} from '../../crds/index.ts'

/** The uid of the database that an object belongs to. */
export const ownerUidAnnotation = 'espalier.dev/owner-uid'

/** `namespace/name` of the database that an object belongs to. */
export const ownerKeyAnnotation = 'espalier.dev/owner'

/** The kind of the owner; absent on the children of a ManagedDatabase, as earlier versions made them. */
export const ownerKindAnnotation = 'espalier.dev/owner-kind'

export type OwnerKind = KindName
const defaultKind: OwnerKind = 'ManagedDatabase'

/** Who has a Postgres, as its children know it. */
export type Owner = {
  kind: OwnerKind
  namespace: string
  name: string
  uid: string
  id: string
  /** The first label of its domain. */
  hostLabel: string
}

export type Component =
  | 'postgres'
  | 'credentials'
  | 'tls'
  | 'route'
  | 'snapshot'
  | 'verification'
  | 'connection'
  | 'service'
  | 'service-token'

type Owning = { kind: OwnerKind; metadata: ObjectMeta; status?: { domain?: string | undefined } | undefined }

export function ownerOf({ kind, metadata, status }: Owning, id: string): Owner {
  const { namespace = '', name, uid = '' } = metadata
  const label = kind === 'Branch' ? branchHostLabel(name, id) : hostLabel(name, id, status?.domain)
  return { kind, namespace, name, uid, id, hostLabel: label }
}

const tenantPrefix = 'espalier-t-'

/** The labels of everything that belongs to a database. */
export function childLabels(owner: Owner, component: Component): Record<string, string> {
  return {
    [labels.managedBy]: managedByEspalier,
    [labels.database]: owner.id,
    [labels.component]: component,
    ...(owner.namespace.startsWith(tenantPrefix)
      ? { [labels.tenant]: owner.namespace.slice(tenantPrefix.length) }
      : {}),
  }
}

/** Metadata of a child in the database's own namespace. */
export function childMetadata(owner: Owner, name: string, component: Component): ObjectMeta {
  return {
    name,
    namespace: owner.namespace,
    labels: childLabels(owner, component),
    annotations: ownerMarks(owner),
  }
}

/** The annotations that say whose an object is. */
export const ownerMarks = ({
  kind,
  namespace,
  name,
  uid,
}: Omit<Owner, 'id' | 'hostLabel'>): Record<string, string> => ({
  [ownerUidAnnotation]: uid,
  [ownerKeyAnnotation]: `${namespace}/${name}`,
  ...(kind === defaultKind ? {} : { [ownerKindAnnotation]: kind }),
})

const isToDatabase = ({ kind, apiVersion }: OwnerReference): boolean =>
  kind === 'ManagedDatabase' && apiVersion.startsWith(`${group}/`)

/** Whether a garbage collector takes an object for a database's. */
export const refersToDatabase = ({ ownerReferences = [] }: ObjectMeta): boolean => ownerReferences.some(isToDatabase)

/**
 * The metadata with the owner's marks and without any reference to a database; undefined where it is so already.
 * References to others stay.
 */
export function markedFor(owner: Omit<Owner, 'id' | 'hostLabel'>, metadata: ObjectMeta): ObjectMeta | undefined {
  const { ownerReferences: references = [], ...rest } = metadata
  const others = references.filter(reference => !isToDatabase(reference))
  const marks = ownerMarks(owner)
  const isMarked = Object.entries(marks).every(([name, value]) => metadata.annotations?.[name] === value)
  if (isMarked && others.length === references.length) return undefined
  return {
    ...rest,
    annotations: { ...metadata.annotations, ...marks },
    ...(others.length > 0 ? { ownerReferences: others } : {}),
  }
}

/** The uid of the database an object belongs to; undefined where it is not marked as one's. */
export function ownerUidOf(object: Pick<AnyObject, 'metadata'>): string | undefined {
  return controllerOf(object)?.uid ?? object.metadata.annotations?.[ownerUidAnnotation]
}

/** `namespace/name` of the database an object is marked as belonging to. */
export function ownerKeyOf(object: Pick<AnyObject, 'metadata'>): string | undefined {
  const { namespace, annotations } = object.metadata
  const controller = controllerOf(object)
  return controller === undefined ? annotations?.[ownerKeyAnnotation] : `${namespace}/${controller.name}`
}

/** Whether an object bears another database's id and no mark of this one: nothing of it is this one's, whatever a record says. */
export const isUnderAnotherId = (
  { uid, id }: Pick<Owner, 'uid' | 'id'>,
  object: Pick<AnyObject, 'metadata'>,
): boolean => {
  const label = object.metadata.labels?.[labels.database]
  return label !== undefined && label !== id && ownerUidOf(object) !== uid
}

/** The kind of owner that an object is marked as belonging to; undefined for one that this version does not know. */
export function ownerKindOf({ metadata }: Pick<AnyObject, 'metadata'>): OwnerKind | undefined {
  const kind = metadata.annotations?.[ownerKindAnnotation] ?? defaultKind
  return kindNames.find(name => name === kind)
}

/** Whether an object belongs to another owner that lives, by the cluster's own word; one of an unknown kind is taken to live. */
export async function isAnothers(
  cluster: Cluster,
  { metadata }: { metadata: ObjectMeta },
  object: Pick<AnyObject, 'metadata'>,
): Promise<boolean> {
  const [uid, key, kind] = [ownerUidOf(object), ownerKeyOf(object), ownerKindOf(object)]
  if (uid === undefined || uid === metadata.uid || key === undefined) return false
  if (kind === undefined) return true
  const [namespace = '', name = ''] = key.split('/')
  const owner = await cluster.get(kind, { namespace, name })
  return owner?.metadata.uid === uid
}

/** The reference that earlier versions gave. */
const controllerOf = ({ metadata }: Pick<AnyObject, 'metadata'>): OwnerReference | undefined =>
  metadata.ownerReferences?.find(reference => reference.controller && isToDatabase(reference))
