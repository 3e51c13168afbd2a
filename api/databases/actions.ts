/** `/databases/{id}/restart`, `/suspend`, `/resume`: operations that clients request by a POST without a body. */
import { z } from 'zod'
import { taskHeaders } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, type Documentation, operation } from '../operation.ts'
import { idParameter } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { refuseBody } from '../validation.ts'
import { type Writer, writerOf } from '../writer.ts'
import { databaseTextAfterWait } from './after-wait.ts'
import { databaseShape } from './schema.ts'
import { restartDatabase, suspendDatabase, type Written } from './write.ts'

type DatabaseAction = Pick<Documentation, 'operationId' | 'summary' | 'description'> & {
  name: 'restart' | 'suspend' | 'resume'
  write: (writer: Writer, id: string, attempt: Attempt) => Promise<Written>
}

const actions: readonly DatabaseAction[] = [
  {
    name: 'restart',
    operationId: 'restartDatabase',
    summary: 'Restart a database',
    description:
      'A restart takes some seconds. It ends open sessions. New connections wait or are refused until it is done. It also applies pending changes, for example a new image or setting. Returns 409 while another operation is running, or if the database is suspended.',
    write: restartDatabase,
  },
  {
    name: 'suspend',
    operationId: 'suspendDatabase',
    summary: 'Suspend a database',
    description:
      'Stops Postgres. Data, credentials, allowlist and address are kept until the database is resumed. Open sessions end, and new connections are refused. A running backup or branch creation is completed first. Returns 409 while another operation is running, or if the database is already suspended.',
    write: (writer, id, attempt) => suspendDatabase(writer, id, true, attempt),
  },
  {
    name: 'resume',
    operationId: 'resumeDatabase',
    summary: 'Resume a suspended database',
    description:
      'Starts Postgres with the same data and address as before. Returns 409 while another operation is running, or if the database is not suspended.',
    write: (writer, id, attempt) => suspendDatabase(writer, id, false, attempt),
  },
]

export function addActions(app: App, context: ApiContext): void {
  for (const action of actions) addAction(app, context, action)
}

function addAction(app: App, context: ApiContext, { name, write, ...documentation }: DatabaseAction): void {
  const schema = operation(
    {
      ...documentation,
      tag: 'databases',
      success: { status: 202, description: 'The database.', shape: databaseShape, headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: idParameter, querystring: z.strictObject({}) },
  )
  app.post(`/databases/:id/${name}`, { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id } = request.params
    refuseBody(request)
    requireCurrentPlan(writer.account, context.now())
    const { account } = writer
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { database, ...written } = await write(writer, id, attempt)
      context.audit.done(request, { status: 202, taskId: written.taskId })
      const body = context.databaseText(database, account.tenant)
      return { status: 202, body, headers: taskHeaders(written.taskId) }
    }
    const afterWait = () => databaseTextAfterWait({ context, request, reply, account }, id)
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}
