/** Restore: the restore of a database to a restore point, in place. */
import { z } from 'zod'
import { ofDatabase, runStatus, timestamp, uuid } from './fields.ts'
import { volumeRecord } from './instance.ts'
import { declareKind, immutableSpec, type ObjectOfKind } from './kind.ts'
import { annotations, type ObjectMeta } from './metadata.ts'

const lsn = z
  .string()
  .regex(/^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/, 'must be an LSN (WAL position), for example 0/16B3748')
  .max(17)
/** The times that can be recovered from archived WAL. */
export const momentFields = {
  time: timestamp
    .max(40)
    .optional()
    .describe('A time, RFC 3339: restores everything that was committed at or before it. Needs the durable tier.'),
  lsn: lsn
    .optional()
    .describe('An LSN (WAL position): restores everything that was committed before it. Needs the durable tier.'),
  pointName: z
    .string()
    .regex(/^[ -~]{1,63}$/, 'must have 1 to 63 printable ASCII characters')
    .optional()
    .describe('The name of a restore point from pg_create_restore_point. Needs the durable tier.'),
}

const targets = ['backupName', 'time', 'lsn', 'pointName'] as const

const exactlyOneTarget = {
  'x-kubernetes-validations': [
    {
      rule: `[${targets.map(name => `has(self.${name})`).join(', ')}].filter(isSet, isSet).size() == 1`,
      message: `target must have exactly one of ${targets.join(', ')}`,
    },
  ],
}

export const restoreTarget = z
  .strictObject({
    backupName: z.string().min(1).max(253).optional().describe('The name of a completed Backup of the database.'),
    ...momentFields,
  })
  .meta(exactlyOneTarget)
  .describe('The target of the restore: a backup, or a moment in the archive.')
export type RestoreTarget = z.output<typeof restoreTarget>

export const isSameTarget = (one: RestoreTarget, other: RestoreTarget): boolean =>
  targets.every(name => one[name] === other[name])

/** The source of a recovery from the archive. It is selected once, at the start. */
export const recoveryRecord = z.strictObject({
  backupName: z.string().max(253).describe('The durable Backup on which WAL is replayed.'),
  backupId: z.string().max(36).describe('The id of the Backup and of its base backup in the archive.'),
  incarnation: z.int().min(1).describe('The number of the volume that was archived.'),
  through: z.string().max(17).optional().describe('The archive had all WAL up to this position.'),
  systemIdentifier: z.string().max(32).describe('The Postgres system identifier of the data.'),
  sizeBytes: z.int().min(0).meta({ format: 'int64' }).optional().describe('The size of the base backup.'),
})
export type RecoveryRecord = z.output<typeof recoveryRecord>

const restoreSpec = {
  ...ofDatabase,
  target: restoreTarget,
  discardPrevious: z
    .boolean()
    .optional()
    .describe(
      '`true` restores even if the current data cannot be backed up first, and deletes their volume once the restore has completed. Otherwise such a restore fails, and a replaced volume is kept: see status.previous of the database.',
    ),
}

export const restore = declareKind({
  kind: 'Restore',
  description:
    'The restore of a database to a backup or a moment, in place: its name, address and credentials do not change.',
  plural: 'restores',
  shortNames: ['rst'],
  scope: 'Namespaced',
  spec: z.strictObject(restoreSpec).meta(immutableSpec('a restore', restoreSpec, ['databaseId'])),
  status: z.strictObject({
    ...runStatus,
    anchor: z.string().max(253).optional().describe('The prerestore Backup, with the data from before the restore.'),
    anchorRefused: z.string().max(1000).optional().describe('Why no prerestore Backup can be taken.'),
    after: z.string().max(253).optional().describe('The postrestore Backup, with the restored data.'),
    deadlineAt: timestamp
      .optional()
      .describe('When the restore fails, unless the new volume has replaced the old one by then.'),
    incarnation: z.int().min(1).optional().describe('The number of the volume that will serve.'),
    recovery: recoveryRecord
      .optional()
      .describe('The part of the archive that the data are restored from. Absent: a snapshot.'),
    previous: z
      .strictObject({
        incarnation: z.int().min(1).describe('The number of that volume.'),
        claim: z.string().max(253).optional().describe('The name of its PersistentVolumeClaim.'),
        uid: z.string().max(64).optional().describe('The uid of the PersistentVolumeClaim.'),
      })
      .optional()
      .describe('The volume that served before. The database keeps it: see its status.previous.'),
    verifiedAt: timestamp.optional().describe('When Postgres first answered on the new volume.'),
    fencedAt: timestamp.optional().describe('When the old Postgres was ordered to stop.'),
    volume: volumeRecord
      .optional()
      .describe(
        'The restored volume, set once the database is to serve from it. From then on the restore cannot fail until the database serves.',
      ),
    switchedAt: timestamp.optional().describe('When the new volume replaced the old one.'),
    error: z.string().max(1000).optional().describe('Why the restore failed.'),
  }),
  rules: [],
  columns: [
    { name: 'Database', type: 'string', jsonPath: '.spec.databaseName' },
    { name: 'Backup', type: 'string', jsonPath: '.spec.target.backupName' },
    { name: 'Time', type: 'string', jsonPath: '.spec.target.time', priority: 1 },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Progressing')].reason",
      priority: 1,
    },
    { name: 'Error', type: 'string', jsonPath: '.status.error', priority: 1 },
    { name: 'Duration', type: 'string', jsonPath: '.status.duration', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Restore = ObjectOfKind<typeof restore>

/** The annotation `espalier.dev/restore` of a database: the requested Restore and its target. */
const requestedRestoreText = z.strictObject({
  name: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?$/),
  /** Exactly one of the targets of a Restore. */
  backupName: z.string().min(1).max(253).optional(),
  ...momentFields,
  /** The id that the API assigned. */
  id: uuid.optional(),
  /** Like `spec.discardPrevious` of the Restore. */
  discardPrevious: z.boolean().optional(),
})
export type RequestedRestore = z.output<typeof requestedRestoreText>

export const renderRequestedRestore = (request: RequestedRestore): string => JSON.stringify(request)

/** The Restore that the annotation requests. Undefined if there is none, or if the text is invalid. */
export function requestedRestore({ metadata }: { metadata: ObjectMeta }): RequestedRestore | undefined {
  try {
    return requestedRestoreText.safeParse(JSON.parse(metadata.annotations?.[annotations.restore] ?? '')).data
  } catch {
    return undefined
  }
}

/** Whether the restore has not ended. */
export const isOpenRestore = ({ status }: Restore): boolean =>
  status?.phase !== 'completed' && status?.phase !== 'failed'
