/** `/databases/{id}/restart`, `/suspend`, `/resume`: operations that are asked for by a POST without a body. */
import { z } from 'zod'
import { taskHeaders } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/claims.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, type Documentation, operation } from '../operation.ts'
import { idParameter } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { refuseBody } from '../validation.ts'
import { type Writer, writerOf } from '../writer.ts'
import { databaseShape } from './schema.ts'
import { settledText } from './settled.ts'
import { restartDatabase, suspendDatabase, type Written } from './write.ts'

type DatabaseAction = Pick<Documentation, 'operationId' | 'summary' | 'description'> & {
  name: 'restart' | 'suspend' | 'resume'
  ask: (writer: Writer, id: string, attempt: Attempt) => Promise<Written>
}

const actions: readonly DatabaseAction[] = [
  {
    name: 'restart',
    operationId: 'restartDatabase',
    summary: 'Restart a database',
    description:
      'A restart takes some seconds. Open sessions end, and new connections wait or are refused until it is done. What waits for a restart, such as a new image or a changed setting, takes effect. Answers 409 while another operation is running, and where the database is suspended.',
    ask: restartDatabase,
  },
  {
    name: 'suspend',
    operationId: 'suspendDatabase',
    summary: 'Suspend a database',
    description:
      'Stops Postgres. Its data, credentials, allowlist and address are kept until it is resumed. Open sessions end, and new connections are refused. A backup or a branch that is being made from the database is waited for. Answers 409 while another operation is running, and where the database is suspended already.',
    ask: (writer, id, attempt) => suspendDatabase(writer, id, true, attempt),
  },
  {
    name: 'resume',
    operationId: 'resumeDatabase',
    summary: 'Resume a suspended database',
    description:
      'Starts Postgres on the data it had, at the address it had. Answers 409 while another operation is running, and where the database is not suspended.',
    ask: (writer, id, attempt) => suspendDatabase(writer, id, false, attempt),
  },
]

export function addActions(app: App, context: ApiContext): void {
  for (const action of actions) addAction(app, context, action)
}

function addAction(app: App, context: ApiContext, { name, ask, ...documentation }: DatabaseAction): void {
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
      const { database, ...written } = await ask(writer, id, attempt)
      context.audit.done(request, { status: 202, taskId: written.taskId })
      const body = context.databaseText(database, account.tenant)
      return { status: 202, body, headers: taskHeaders(written.taskId) }
    }
    const settled = () => settledText({ context, request, reply, account }, id)
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, settled })
  })
}
