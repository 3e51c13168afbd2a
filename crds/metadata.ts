/** Object metadata as the API server returns it, and Espalier's labels and annotations. */

/** RFC 3339 time with second precision, as Kubernetes writes it. */
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
  /** The API's id of an object: a UUID, created by the API, or by the operator for an object applied with kubectl. */
  id: 'espalier.dev/id',
  /** On everything that belongs to a database: the id of the database. */
  database: 'espalier.dev/database',
  /** On everything that belongs to a tenant: the hash of the tenant's id, as in the name of its namespace. */
  tenant: 'espalier.dev/tenant',
  /** The function of a child for its owner: `postgres`, `route`, `credentials`, `tls`. */
  component: 'espalier.dev/component',
  /** The number of the incarnation that a child serves. */
  incarnation: 'espalier.dev/incarnation',
  /**
   * On a Postgres pod: `primary` or `replica`; the selector of the Service uses it. Absent on pods older than this
   * label.
   */
  role: 'espalier.dev/role',
  /** The number of the member that a child belongs to; absent for the first member. */
  member: 'espalier.dev/member',
  /** On the objects of a service: `mcp`, `rest` or `rag`. */
  service: 'espalier.dev/service',
  /**
   * On the pods and the Deployment of a service: the digest of their configuration. The selector of the Service uses
   * it.
   */
  configuration: 'espalier.dev/configuration',
  /** On a Task: the id of its subject. */
  subject: 'espalier.dev/subject',
  managedBy: 'app.kubernetes.io/managed-by',
} as const

export const annotations = {
  /** JSON `Operation` (see operation.ts): the asynchronous operation that the last API write requested. */
  operation: 'espalier.dev/operation',
  /**
   * `true` allows the deletion of a database that has branches, or of an owner's child. The operator removes it if the
   * database is not deleted soon.
   */
  force: 'espalier.dev/force',
  /**
   * On a ManagedDatabase, `true`: its deletion deletes only the object, and keeps Postgres, volume, credentials and
   * backups.
   */
  orphan: 'espalier.dev/orphan',
  /** On the record of a deleted database, `true`: deletes everything of that database now. */
  purge: 'espalier.dev/purge',
  /**
   * On a ManagedDatabase or a Branch: requests a restart. Each new value requests another one. The API writes an RFC
   * 3339 time.
   */
  restart: 'espalier.dev/restart',
  /** On a ManagedDatabase: the requested Restore, as JSON (see restore.ts). */
  restore: 'espalier.dev/restore',
  /**
   * On a ManagedDatabase: the uids of previous volumes (status.previous) that a user allows to delete, separated by
   * commas.
   */
  discardPrevious: 'espalier.dev/discard-previous',
  /**
   * On a Backup: the uid that the operator first saw. A Backup that was restored from a copy of the cluster's objects
   * has another uid.
   */
  firstUid: 'espalier.dev/first-uid',
  /** On a Backup: requests a verification. Each new value requests another one. The API writes an RFC 3339 time. */
  verify: 'espalier.dev/verify',
  /**
   * On a Backup and its VolumeSnapshot: `true` if the data are used for only one volume. The storage may then turn the
   * snapshot into that volume instead of copying it. Storage that does not support this copies.
   */
  singleUse: 'espalier.dev/single-use',
  /**
   * On a VolumeSnapshot: `true` if nothing uses its volume, nor is expected to. The storage may then leave the data in
   * the volume until something does.
   */
  volumeAtRest: 'espalier.dev/volume-at-rest',
  /** On a VolumeSnapshot that is no longer ready: the claim whose volume now contains its data. */
  becameVolume: 'espalier.dev/became-volume',
  /** When the API last wrote an object, RFC 3339. managedFields have only whole seconds, and caches drop them. */
  updatedAt: 'espalier.dev/updated-at',
  /** On a Task that the operator creates, whose id contains no time: its creation time in milliseconds. */
  createdAt: 'espalier.dev/created-at',
} as const

/**
 * On a ManagedDatabase, by role: requests a new password for the role. Each new value requests another one, as for
 * `annotations.restart`.
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

/** The operator keeps this finalizer on every ManagedDatabase until all objects it created are deleted. */
export const teardownFinalizer = 'espalier.dev/teardown'
export const managedByEspalier = 'espalier'
/** The namespace of the installation: keys, routes, leases. */
export const systemNamespace = 'espalier-system'
