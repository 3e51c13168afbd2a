/** Tasks as the API returns them. */
import { z } from 'zod'
import { messageLevels, operationNames, subjectKinds, taskStatuses } from '../../crds/index.ts'
import { idText, paging, queryText, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

const message = { time: '2026-01-31T12:00:09.120Z', level: 'info', text: 'the database is available' }

export const taskShape = output(
  'Task',
  z
    .strictObject({
      id: idText.describe('The id of the task, a UUID.'),
      created_at: time.describe('When the operation was requested.'),
      updated_at: time.describe('When the task last changed.'),
      subject_kind: z.enum(subjectKinds).describe("The kind of the operation's object."),
      subject_id: idText.describe("The id of the operation's object."),
      subject_name: z.string().optional().describe("The name of the operation's object, also of a deleted one."),
      name: z.enum(operationNames).describe('The operation.'),
      messages: z
        .array(
          output(
            'Message',
            z
              .strictObject({
                time: time.describe('When it was written.'),
                level: z.enum(messageLevels).describe('`warning`: this delays the operation. `error`: this ended it.'),
                text: z.string().describe('What happened.'),
                progress: z.int().optional().describe('The progress of the operation, in percent.'),
                status: z.string().optional().describe('The state of the step.'),
                step: z.string().optional().describe('The step of the operation.'),
              })
              .meta({ description: 'One message of a task.', example: message }),
          ),
        )
        .describe('The messages, oldest first.'),
      status: z.enum(taskStatuses).describe('`queued` and `running` are open. `succeeded` and `failed` are final.'),
      error: z.string().optional().describe('Why it failed.'),
      request: z.record(z.string(), z.unknown()).optional().describe('The request, without secrets.'),
      response: z.record(z.string(), z.unknown()).optional().describe('The result.'),
    })
    .meta({
      description: 'The record of one asynchronous operation.',
      example: {
        id: '0198c0de-0000-7000-8000-000000000005',
        created_at: '2026-01-31T12:00:00.000Z',
        updated_at: '2026-01-31T12:00:09.120Z',
        subject_kind: 'database',
        subject_id: '0198c0de-0000-7000-8000-000000000001',
        subject_name: 'shop',
        name: 'create-managed',
        messages: [message],
        status: 'succeeded',
        request: { name: 'shop', region: 'local', size: 'small' },
      },
    }),
)
export type TaskShape = z.output<typeof taskShape>

const { limit, offset } = paging(100, true)
/** Filters without matches return an empty list, whatever their value. */
export const listTasksQuery = z.strictObject({
  subject_id: queryText.toLowerCase().optional().describe('Only tasks of this object.'),
  database_id: queryText
    .toLowerCase()
    .optional()
    .describe('Only tasks of this database, and of its branches and backups that exist.'),
  subject_kind: queryText
    .optional()
    .describe(`Only tasks of objects of this kind: ${subjectKinds.map(kind => `\`${kind}\``).join(', ')}.`),
  id: queryText.toLowerCase().optional().describe('Only this task.'),
  name: queryText.optional().describe('Only tasks of this operation.'),
  status: queryText
    .optional()
    .describe(`Only tasks in this state: ${taskStatuses.map(status => `\`${status}\``).join(', ')}.`),
  limit,
  offset,
})
