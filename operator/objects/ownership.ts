/**
 * The owner of a child. Every child has its database's uid and key as annotations, and the database's id as a label.
 * None has an owner reference: the garbage collector would delete the data at once, in a foreground deletion or if the
 * uid is from before the cluster was restored. So only the operator deletes children. Earlier versions set owner
 * references; the operator still recognises them, and removes them. A name alone is no proof: the operator never
 * changes or deletes an object without the owner's annotations.
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

/** The kind of the owner; absent on the children of a ManagedDatabase, for compatibility with earlier versions. */
export const ownerKindAnnotation = 'espalier.dev/owner-kind'

export type OwnerKind = KindName
const defaultKind: OwnerKind = 'ManagedDatabase'

/** The owner of a Postgres, as its children identify it. */
export type Owner = {
  kind: OwnerKind
  namespace: string
  name: string
  uid: string
  id: string
  /** The first label of the owner's domain. */
  hostLabel: string
}

export type Component =
  | 'postgres'
  | 'credentials'
  | 'tls'
  | 'archive'
  | 'route'
  | 'snapshot'
  | 'verification'
  | 'connection'
  | 'import'
  | 'service'
  | 'service-token'
  | 'deleted-database'

type Owning = { kind: OwnerKind; metadata: ObjectMeta; status?: { domain?: string | undefined } | undefined }

export function ownerOf({ kind, metadata, status }: Owning, id: string): Owner {
  const { namespace = '', name, uid = '' } = metadata
  const label = kind === 'Branch' ? branchHostLabel(name, id) : hostLabel(name, id, status?.domain)
  return { kind, namespace, name, uid, id, hostLabel: label }
}

const tenantPrefix = 'espalier-t-'

/** The labels of every object of a database. */
export function childLabels(owner: Pick<Owner, 'id' | 'namespace'>, component: Component): Record<string, string> {
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
    annotations: ownerAnnotations(owner),
  }
}

/** The annotations that identify an object's owner. */
export const ownerAnnotations = ({
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

/** Whether a garbage collector treats an object as a database's. */
export const refersToDatabase = ({ ownerReferences = [] }: ObjectMeta): boolean => ownerReferences.some(isToDatabase)

/**
 * The metadata with the owner's annotations, and without owner references to a database. Undefined if nothing changes.
 * Other owner references are kept.
 */
export function withOwner(owner: Omit<Owner, 'id' | 'hostLabel'>, metadata: ObjectMeta): ObjectMeta | undefined {
  const { ownerReferences: references = [], ...rest } = metadata
  const others = references.filter(reference => !isToDatabase(reference))
  const expected = ownerAnnotations(owner)
  const hasOwner = Object.entries(expected).every(([name, value]) => metadata.annotations?.[name] === value)
  if (hasOwner && others.length === references.length) return undefined
  return {
    ...rest,
    annotations: { ...metadata.annotations, ...expected },
    ...(others.length > 0 ? { ownerReferences: others } : {}),
  }
}

/** The uid of the database to which an object belongs; undefined if it has none. */
export function ownerUidOf(object: Pick<AnyObject, 'metadata'>): string | undefined {
  return controllerOf(object)?.uid ?? object.metadata.annotations?.[ownerUidAnnotation]
}

/** `namespace/name` of the database to which an object belongs, by its annotation. */
export function ownerKeyOf(object: Pick<AnyObject, 'metadata'>): string | undefined {
  const { namespace, annotations } = object.metadata
  const controller = controllerOf(object)
  return controller === undefined ? annotations?.[ownerKeyAnnotation] : `${namespace}/${controller.name}`
}

/**
 * Whether an object has another database's id and no annotation of this database. Then it does not belong to this
 * database, whatever a record contains.
 */
export const isUnderAnotherId = (
  { uid, id }: Pick<Owner, 'uid' | 'id'>,
  object: Pick<AnyObject, 'metadata'>,
): boolean => {
  const label = object.metadata.labels?.[labels.database]
  return label !== undefined && label !== id && ownerUidOf(object) !== uid
}

/** The owner's kind in an object's annotations. Undefined if this version does not know the kind. */
export function ownerKindOf({ metadata }: Pick<AnyObject, 'metadata'>): OwnerKind | undefined {
  const kind = metadata.annotations?.[ownerKindAnnotation] ?? defaultKind
  return kindNames.find(name => name === kind)
}

/**
 * Whether an object belongs to another owner that exists in the cluster. An owner of an unknown kind counts as
 * existing.
 */
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

/** The owner reference that earlier versions set. */
const controllerOf = ({ metadata }: Pick<AnyObject, 'metadata'>): OwnerReference | undefined =>
  metadata.ownerReferences?.find(reference => reference.controller && isToDatabase(reference))
