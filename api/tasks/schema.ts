/** Tasks as the API gives them. */
import { z } from 'zod'
import { messageLevels, operationNames, subjectKinds, taskStatuses } from '../../crds/index.ts'
import { id, paging, time } from '../schemas/common.ts'
import { output } from '../schemas/components.ts'

export const taskShape = output(
  'Task',
  z.strictObject({
    id: z.string(),
    created_at: time,
    updated_at: time,
    subject_kind: z.enum(subjectKinds),
    subject_id: z.string(),
    name: z.enum(operationNames),
    messages: z.array(
      output(
        'Message',
        z.strictObject({
          time,
          level: z.enum(messageLevels),
          text: z.string(),
          progress: z.int().optional(),
          status: z.string().optional(),
          step: z.string().optional(),
        }),
      ),
    ),
    status: z.enum(taskStatuses),
    error: z.string().optional(),
    request: z.record(z.string(), z.unknown()).optional(),
    response: z.record(z.string(), z.unknown()).optional(),
  }),
)
export type TaskShape = z.output<typeof taskShape>

const { limit, offset } = paging(100, true)
export const listTasksQuery = z.strictObject({
  subject_id: id.optional(),
  subject_kind: z.enum(subjectKinds).optional(),
  id: id.optional(),
  name: z.enum(operationNames).optional(),
  status: z.enum(taskStatuses).optional(),
  limit,
  offset,
})
