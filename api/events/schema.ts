/** The data of one event. */
import { z } from 'zod'
import { idText } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

const changedKinds = ['database', 'branch', 'backup', 'task'] as const

export const changeShape = output(
  'Change',
  z
    .strictObject({
      kind: z.enum(changedKinds).describe('The kind of the object.'),
      id: idText.describe('The id of the object.'),
      database_id: idText.optional().describe('The database that it belongs to, if known. Of a database, its own id.'),
      status: z.string().describe('The status of the object now; `deleted`: it no longer exists.'),
    })
    .meta({
      description:
        'The `data` of an event `change`. It contains nothing else: read the object for its other fields, which may have changed without its status.',
      example: {
        kind: 'branch',
        id: '0199a1b2-0000-7000-8000-000000000002',
        database_id: '0199a1b2-0000-7000-8000-000000000001',
        status: 'available',
      },
    }),
)
export type Change = z.output<typeof changeShape>
