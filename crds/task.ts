/** Task: the record of one asynchronous operation. It ends exactly when its subject is reconciled. */
import { z } from 'zod'
import { duration, timestamp } from './fields.ts'
import { declareKind, immutable, type ObjectOfKind } from './kind.ts'
import { operationName } from './managed-database.ts'

export const taskStatuses = ['queued', 'running', 'succeeded', 'failed'] as const
/** The states of a Task that has ended. */
export const endedTaskStatuses = ['succeeded', 'failed'] as const satisfies readonly (typeof taskStatuses)[number][]
export const subjectKinds = ['database', 'branch', 'backup'] as const
export const messageLevels = ['info', 'warning', 'error'] as const

const taskMessage = z.strictObject({
  time: timestamp.describe('When it happened.'),
  level: z.enum(messageLevels).describe('info, warning or error. A warning names what delays the operation.'),
  text: z.string().max(2000).describe('What happened, as text for users.'),
  progress: z.int().min(0).max(100).optional().describe('The progress of the operation in per cent.'),
  status: z.string().max(63).optional().describe('The status of the subject at that time.'),
  step: z.string().max(63).optional().describe('The step of the operation, for programs.'),
})

export const task = declareKind({
  kind: 'Task',
  description: 'The record of one operation: its progress and its result.',
  plural: 'tasks',
  shortNames: ['tsk'],
  scope: 'Namespaced',
  spec: z
    .strictObject({
      name: operationName.describe('The name of the operation.'),
      subject: z
        .strictObject({
          kind: z.enum(subjectKinds).describe('The kind of the subject.'),
          id: z.string().max(36).describe('The id of the subject: its label espalier.dev/id.'),
          name: z.string().max(253).describe('The metadata.name of the subject.'),
        })
        .describe('The subject: the object that the operation changes.'),
      request: z
        .looseObject({})
        .optional()
        // A schema cannot count bytes. `taskRequest` limits them wherever a request is written or shown.
        .meta({ 'x-kubernetes-preserve-unknown-fields': true, maxProperties: 32 })
        .describe('The request, without secrets, at most 8 KiB.'),
    })
    .meta(immutable('a task')),
  status: z.strictObject({
    phase: z.enum(taskStatuses).optional().describe('The state of the operation.'),
    updatedAt: timestamp.optional().describe('When this status last changed.'),
    finishedAt: timestamp.optional().describe('When the operation succeeded or failed.'),
    duration: duration.optional().describe('The time from the first message to finishedAt, for example 8s.'),
    messages: z
      .array(taskMessage)
      .max(100)
      .optional()
      .describe('What happened, oldest first. A warning names what delays the operation.'),
    error: z.string().max(2000).optional().describe('Why the operation failed.'),
    response: z
      .looseObject({})
      .optional()
      .describe('The result of the operation.')
      .meta({ 'x-kubernetes-preserve-unknown-fields': true }),
  }),
  rules: [],
  columns: [
    { name: 'Operation', type: 'string', jsonPath: '.spec.name' },
    { name: 'Subject', type: 'string', jsonPath: '.spec.subject.name' },
    { name: 'Status', type: 'string', jsonPath: '.status.phase' },
    { name: 'Error', type: 'string', jsonPath: '.status.error', priority: 1 },
    { name: 'Duration', type: 'string', jsonPath: '.status.duration', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectableFields: ['.status.phase'],
})
export type Task = ObjectOfKind<typeof task>

/** Whether the Task has ended, successfully or not. After that it never changes. */
export const isEnded = ({ status }: Pick<Task, 'status'>): boolean =>
  endedTaskStatuses.some(ended => ended === status?.phase)

export type TaskMessage = z.output<typeof taskMessage>
