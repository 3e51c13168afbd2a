/** Restore: one return of a database to a restore point, in place. */
// @ts-nocheck

import { z } from 'zod'
import { ofDatabase, runStatus } from './fields.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'

export const restore = declareKind({
  kind: 'Restore',
  description: 'One return of a database to a backup, in place. None is done yet: see its conditions.',
  plural: 'restores',
  shortNames: ['rst'],
  scope: 'Namespaced',
  spec: z
    .strictObject({
      ...ofDatabase,
      target: z
        .strictObject({ backupName: z.string().min(1).max(253).optional() })
        .meta({
          'x-kubernetes-validations': [
            { rule: 'has(self.backupName)', message: 'target must name a backup: set backupName' },
          ],
        })
        .describe('What to return to: a backup.'),
    })
    .meta(immutable('a restore')),
  status: z.strictObject({
    ...runStatus,
    anchor: z.string().max(253).optional().describe('The prerestore backup.'),
    anchorRefused: z.string().max(1000).optional().describe('Why there can be no prerestore backup.'),
  }),
  rules: [],
  columns: [
    { name: 'Database', type: 'string', jsonPath: '.spec.databaseName' },
    { name: 'Backup', type: 'string', jsonPath: '.spec.target.backupName' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Restore = ObjectOfKind<typeof restore>
