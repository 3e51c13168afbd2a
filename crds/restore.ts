/** Restore: one return of a database to a restore point, in place. */
import { z } from 'zod'
import { ofDatabase, runStatus, timestamp, uuid } from './fields.ts'
import { volumeRecord } from './instance.ts'
import { declareKind, immutableSpec, type ObjectOfKind } from './kind.ts'
import { annotations, type ObjectMeta } from './metadata.ts'

const restoreSpec = {
  ...ofDatabase,
  target: z
    .strictObject({
      backupName: z.string().min(1).max(253).optional().describe('The name of a completed Backup of the database.'),
    })
    .meta({
      'x-kubernetes-validations': [
        { rule: 'has(self.backupName)', message: 'target must name a backup: set backupName' },
      ],
    })
    .describe('What to return to: a backup.'),
  discardPrevious: z
    .boolean()
    .optional()
    .describe(
      '`true` restores even where the present data cannot be backed up before, and deletes their volume once the restore has completed. Otherwise such a restore fails, and the volume is kept: see status.previous of the database.',
    ),
}

export const restore = declareKind({
  kind: 'Restore',
  description: 'One return of a database to a backup, in place: its name, address and credentials stay.',
  plural: 'restores',
  shortNames: ['rst'],
  scope: 'Namespaced',
  spec: z.strictObject(restoreSpec).meta(immutableSpec('a restore', restoreSpec, ['databaseId'])),
  status: z.strictObject({
    ...runStatus,
    anchor: z.string().max(253).optional().describe('The prerestore backup: the data as they were before.'),
    anchorRefused: z.string().max(1000).optional().describe('Why there can be no prerestore backup.'),
    after: z.string().max(253).optional().describe('The postrestore backup: the data as they were restored.'),
    deadlineAt: timestamp.optional().describe('When it is given up, if nothing has taken the place of the old data.'),
    incarnation: z.int().min(1).optional().describe('Which volume is to serve, by number.'),
    previous: z
      .strictObject({
        incarnation: z.int().min(1).describe('The number of that volume.'),
        claim: z.string().max(253).optional().describe('The name of its PersistentVolumeClaim.'),
        uid: z.string().max(64).optional().describe('Of the claim.'),
      })
      .optional()
      .describe('Which volume served before. The database keeps it: see its status.previous.'),
    verifiedAt: timestamp.optional().describe('When a Postgres had answered on the new volume.'),
    fencedAt: timestamp.optional().describe('When the old Postgres was told to stop.'),
    volume: volumeRecord
      .optional()
      .describe(
        'The restored volume, once the database is to serve from it. From then on the restore cannot fail before it does.',
      ),
    switchedAt: timestamp.optional().describe('When the new volume took the place of the old one.'),
    error: z.string().max(1000).optional().describe('Why it failed.'),
  }),
  rules: [],
  columns: [
    { name: 'Database', type: 'string', jsonPath: '.spec.databaseName' },
    { name: 'Backup', type: 'string', jsonPath: '.spec.target.backupName' },
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

/** The annotation `espalier.dev/restore` of a database: the Restore that is asked for, and of which backup. */
const askedRestoreText = z.strictObject({
  name: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?$/),
  backupName: z.string().min(1).max(253),
  /** The id that the API gave it. */
  id: uuid.optional(),
  /** As `spec.discardPrevious` of the Restore. */
  discardPrevious: z.boolean().optional(),
})
export type AskedRestore = z.output<typeof askedRestoreText>

export const renderAskedRestore = (asked: AskedRestore): string => JSON.stringify(asked)

/** Which Restore the annotation names; undefined where it names none, or makes no sense. */
export function askedRestore({ metadata }: { metadata: ObjectMeta }): AskedRestore | undefined {
  try {
    return askedRestoreText.safeParse(JSON.parse(metadata.annotations?.[annotations.restore] ?? '')).data
  } catch {
    return undefined
  }
}

/** Whether something is still to come of it. */
export const isOpenRestore = ({ status }: Restore): boolean =>
  status?.phase !== 'completed' && status?.phase !== 'failed'
