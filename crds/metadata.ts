/** Object metadata as the API server returns it, and Espalier's labels and annotations. */

/** RFC 3339 time in whole seconds, in Kubernetes' format. */
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
  /** The id of an object in the API: a UUID. The API creates it, or the operator for an object applied with kubectl. */
  id: 'espalier.dev/id',
  /** On every object of a database: the database's id. */
  database: 'espalier.dev/database',
  /** On every object of a tenant: the hash of the tenant's id, which is also in the name of its namespace. */
  tenant: 'espalier.dev/tenant',
  /** The function of a child for its owner: `postgres`, `route`, `credentials`, `tls`. */
  component: 'espalier.dev/component',
  /** The number of the incarnation that a child serves. */
  incarnation: 'espalier.dev/incarnation',
  /** On a Postgres pod: `primary` or `replica`. The Service selects by it. Absent on pods from before this label. */
  role: 'espalier.dev/role',
  /** The number of the member that a child belongs to. Absent for the first member. */
  member: 'espalier.dev/member',
  /** On the objects of a service: `mcp`, `rest` or `rag`. */
  service: 'espalier.dev/service',
  /** On the pods and the Deployment of a service: the digest of their configuration. The Service selects by it. */
  configuration: 'espalier.dev/configuration',
  /** On a Task: the id of its subject. */
  subject: 'espalier.dev/subject',
  managedBy: 'app.kubernetes.io/managed-by',
} as const

export const annotations = {
  /** JSON `Operation` (see operation.ts): the asynchronous operation that the last API write requested. */
  operation: 'espalier.dev/operation',
  /**
   * `true` permits the deletion of a database that has branches, or of an owner's child. The operator removes the
   * annotation if the database is not deleted soon.
   */
  force: 'espalier.dev/force',
  /**
   * On a ManagedDatabase, `true`: a deletion deletes only the object. Postgres, volume, credentials and backups are
   * kept.
   */
  orphan: 'espalier.dev/orphan',
  /** On the record of a deleted database, `true`: the operator deletes everything of that database now. */
  purge: 'espalier.dev/purge',
  /**
   * On a ManagedDatabase or a Branch: requests a restart. Each new value requests another restart. The API writes an
   * RFC 3339 time.
   */
  restart: 'espalier.dev/restart',
  /** On a ManagedDatabase: the requested Restore, as JSON (see restore.ts). */
  restore: 'espalier.dev/restore',
  /**
   * On a ManagedDatabase: the uids of previous volumes (status.previous) that the operator may delete, separated by
   * commas. A user sets it.
   */
  discardPrevious: 'espalier.dev/discard-previous',
  /**
   * On a Backup: the uid that the operator first observed. A Backup that was restored from a copy of the cluster's
   * objects has another uid.
   */
  firstUid: 'espalier.dev/first-uid',
  /**
   * On a Backup: requests a verification. Each new value requests another verification. The API writes an RFC 3339
   * time.
   */
  verify: 'espalier.dev/verify',
  /**
   * On a Backup and its VolumeSnapshot: `true` if only one volume will use the data. The storage may then turn the
   * snapshot into that volume instead of copying it. Storage without support for this copies.
   */
  singleUse: 'espalier.dev/single-use',
  /**
   * On a VolumeSnapshot: `true` if nothing uses its volume, or is expected to use it. The storage may then leave the
   * data in the volume until something uses it.
   */
  volumeAtRest: 'espalier.dev/volume-at-rest',
  /** On a VolumeSnapshot that is no longer ready: the claim whose volume now contains its data. */
  becameVolume: 'espalier.dev/became-volume',
  /**
   * The time of the API's last write to an object, RFC 3339. managedFields have only whole seconds, and caches drop
   * them.
   */
  updatedAt: 'espalier.dev/updated-at',
  /** On a Task that the operator created: its creation time in milliseconds, because its id contains no time. */
  createdAt: 'espalier.dev/created-at',
} as const

/**
 * On a ManagedDatabase, by role: requests a new password for the role. Like `annotations.restart`, each new value
 * requests another password.
 */
export const rotationAnnotations = {
  admin: 'espalier.dev/rotate-password-admin',
  app: 'espalier.dev/rotate-password-app',
  app_read_only: 'espalier.dev/rotate-password-app_read_only',
} as const
type RotatedRole = keyof typeof rotationAnnotations

/** The annotation values that requested a password rotation, by role. */
export type Rotations = Partial<Record<RotatedRole, string>>

export const rotatedRoles = ['admin', 'app', 'app_read_only'] as const satisfies readonly RotatedRole[]

/**
 * The finalizer on every ManagedDatabase. The operator removes it after it has deleted all objects that it created for
 * the database.
 */
export const teardownFinalizer = 'espalier.dev/teardown'
export const managedByEspalier = 'espalier'
/** The namespace of the installation: keys, routes, leases. */
export const systemNamespace = 'espalier-system'
