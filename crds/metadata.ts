/** Object metadata as the API server gives it, and the labels and annotations that are ours. */

/** RFC 3339 time, second precision, as Kubernetes writes it. */
export type Timestamp = string

export type OwnerReference = {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export type ManagedFieldsEntry = {
  manager: string
  operation: 'Apply' | 'Update'
  apiVersion: string
  time?: Timestamp
  fieldsType: 'FieldsV1'
  fieldsV1: object
  subresource?: string
}

export type ObjectMeta = {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  generation?: number
  creationTimestamp?: Timestamp
  deletionTimestamp?: Timestamp
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  ownerReferences?: OwnerReference[]
  managedFields?: ManagedFieldsEntry[]
}

export const labels = {
  /** The API's id of an object: a UUID, minted by the API, or by the operator for an object applied by hand. */
  id: 'espalier.dev/id',
  /** On everything that belongs to a database: the database's id. */
  database: 'espalier.dev/database',
  /** On everything that belongs to a tenant: the hash of the tenant's id (what its namespace is named by). */
  tenant: 'espalier.dev/tenant',
  /** What a child is to its owner: `postgres`, `route`, `credentials`, `tls`. */
  component: 'espalier.dev/component',
  /** The number of the incarnation a child serves. */
  incarnation: 'espalier.dev/incarnation',
  /** On a pod of Postgres, `primary` or `replica`: which the Service leads to. Absent on pods from before there was this label. */
  role: 'espalier.dev/role',
  /** The number of the member that a child belongs to; absent on the first member's. */
  member: 'espalier.dev/member',
  /** On the objects of a service: `mcp`, `rest` or `rag`. */
  service: 'espalier.dev/service',
  /** On the pods and the Deployment of a service: the digest of what they run with. The selector of its Service has it. */
  configuration: 'espalier.dev/configuration',
  /** On a Task: the id of its subject. */
  subject: 'espalier.dev/subject',
  managedBy: 'app.kubernetes.io/managed-by',
} as const

export const annotations = {
  /** JSON `Operation` (see operation.ts): the asynchronous operation that the last API write asked for. */
  operation: 'espalier.dev/operation',
  /** `true` allows the deletion of a database that has branches, or of an owner's child. The operator removes it from a database that is not deleted soon. */
  force: 'espalier.dev/force',
  /** On a ManagedDatabase, `true`: its deletion deletes the object alone, and keeps its Postgres, volume, credentials and backups. */
  orphan: 'espalier.dev/orphan',
  /** On a ManagedDatabase or a Branch: asks for a restart. Any other value than before asks for another one; RFC 3339 by the API. */
  restart: 'espalier.dev/restart',
  /** On a ManagedDatabase: the Restore that is asked for, as JSON (see restore.ts). */
  restore: 'espalier.dev/restore',
  /** On a ManagedDatabase: the uids of previous volumes (status.previous) that somebody agrees to delete, separated by commas. */
  discardPrevious: 'espalier.dev/discard-previous',
  /** On a Backup: its uid when the operator first saw it. One that is put back out of a copy of the cluster's objects has another uid. */
  firstUid: 'espalier.dev/first-uid',
  /** On a Backup: asks for it to be verified. Any other value than before asks again; RFC 3339 by the API. */
  verify: 'espalier.dev/verify',
  /**
   * On a Backup, and on its VolumeSnapshot: `true` where its data are for one volume alone. Storage may then make the snapshot into that
   * volume rather than copy it. Storage that does not know this copies, as ever.
   */
  singleUse: 'espalier.dev/single-use',
  /**
   * On a VolumeSnapshot: `true` where nothing uses its volume, and nothing is expected to. Storage may then leave the data where they are until
   * something does.
   */
  volumeAtRest: 'espalier.dev/volume-at-rest',
  /** On a VolumeSnapshot that is no longer ready: the claim whose volume its data have become. */
  becameVolume: 'espalier.dev/became-volume',
  /** When the API last wrote an object, RFC 3339: managedFields tell whole seconds only, and no cache has them. */
  updatedAt: 'espalier.dev/updated-at',
  /** On a Task that the operator makes, whose id tells no time: when it was made, to the millisecond. */
  createdAt: 'espalier.dev/created-at',
} as const

/**
 * On a ManagedDatabase, by role: asks for another password of the role, in the way in which `annotations.restart` asks for
 * a restart.
 */
export const rotationAnnotations = {
  admin: 'espalier.dev/rotate-password-admin',
  app: 'espalier.dev/rotate-password-app',
  app_read_only: 'espalier.dev/rotate-password-app_read_only',
} as const
type RotatedRole = keyof typeof rotationAnnotations

/** For each role whose password was, or is to be, replaced: what asked for it. */
export type Rotations = Partial<Record<RotatedRole, string>>

export const rotatedRoles = ['admin', 'app', 'app_read_only'] as const satisfies readonly RotatedRole[]

/** Held by the operator on every ManagedDatabase until all that it made is gone. */
export const teardownFinalizer = 'espalier.dev/teardown'
export const managedByEspalier = 'espalier'
/** The namespace of the installation itself: keys, routes, leases. */
export const systemNamespace = 'espalier-system'
