/**
 * Who a child belongs to. Every child in the database's namespace carries a controller reference with the database's
 * uid; a route stands in another namespace, where no reference may point, and carries the uid as an annotation. A name
 * alone proves nothing: an object that is not marked as ours is never changed and never deleted.
 */
import type { AnyObject } from '../../cluster/index.ts'
import {
  apiVersion,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  type ObjectMeta,
  type OwnerReference,
} from '../../crds/index.ts'

/** On a route: the uid of the database that holds it. */
export const ownerUidAnnotation = 'espalier.dev/owner-uid'

/** On a route: `namespace/name` of the database that holds it. */
export const ownerKeyAnnotation = 'espalier.dev/owner'

/** A database as its children know it. */
export type Owner = { namespace: string; name: string; uid: string; id: string }

export type Component = 'postgres' | 'credentials' | 'tls' | 'route'

export function ownerOf(database: ManagedDatabase, id: string): Owner {
  const { namespace = '', name, uid = '' } = database.metadata
  return { namespace, name, uid, id }
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
    ownerReferences: [
      { apiVersion, kind: 'ManagedDatabase', name: owner.name, uid: owner.uid, controller: true },
    ] satisfies OwnerReference[],
  }
}

/** The uid of the database an object belongs to; undefined where it is not marked as one's. */
export function ownerUidOf(object: Pick<AnyObject, 'metadata'>): string | undefined {
  const controller = object.metadata.ownerReferences?.find(reference => reference.controller)
  if (controller !== undefined) return controller.kind === 'ManagedDatabase' ? controller.uid : undefined
  return object.metadata.annotations?.[ownerUidAnnotation]
}

/** `namespace/name` of the database an object is marked as belonging to. */
export function ownerKeyOf({ metadata }: Pick<AnyObject, 'metadata'>): string | undefined {
  const controller = metadata.ownerReferences?.find(reference => reference.controller)
  if (controller?.kind === 'ManagedDatabase') return `${metadata.namespace}/${controller.name}`
  return metadata.annotations?.[ownerKeyAnnotation]
}
