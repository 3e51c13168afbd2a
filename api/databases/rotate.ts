/** `/databases/{id}/roles/{role}/rotate-password`: replaces the password of one role of a database. */
import { z } from 'zod'
import { databaseRoles } from '../../sealing/credentials.ts'
import { taskHeaders } from '../answers.ts'
import type { ApiContext, App } from '../context.ts'
import { answerOnce } from '../idempotency/answer-once.ts'
import type { Attempt } from '../idempotency/idempotency.ts'
import type { Answer } from '../idempotency/record.ts'
import { asynchronous, operation } from '../operation.ts'
import { idParameter } from '../schemas/common.ts'
import { requireCurrentPlan } from '../tenants.ts'
import { refuseBody } from '../validation.ts'
import { writerOf } from '../writer.ts'
import { databaseTextAfterWait } from './after-wait.ts'
import { rotatePassword } from './write.ts'

const parameters = idParameter.extend({ role: z.enum(databaseRoles).describe('The role whose password is replaced.') })

export function addRotation(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'rotatePassword',
      tag: 'databases',
      summary: 'Replace the password of a role',
      description:
        'The database is `modifying` until Postgres has the new password. Until then `connection` returns the new password, which is not valid yet, and the previous one is still valid. Just after this response `connection` may be absent. Once the database is `available`, only the new password is valid. Open sessions continue, and other roles are unchanged. If the rotation fails, the previous password stays valid and is returned again. Returns 409 unless the database is `available`.',
      success: { status: 204, description: 'The rotation has begun.', headers: asynchronous },
      errors: [400, 404, 409],
      takes: ['Idempotency-Key', 'Prefer'],
    },
    { params: parameters, querystring: z.strictObject({}) },
  )
  app.post('/databases/:id/roles/:role/rotate-password', { schema }, async (request, reply) => {
    const writer = writerOf(context, request)
    const { id, role } = request.params
    refuseBody(request)
    requireCurrentPlan(writer.account, context.now())
    const { account } = writer
    const work = async (attempt: Attempt): Promise<Answer> => {
      const { taskId } = await rotatePassword(writer, id, role, attempt)
      context.audit.done(request, { status: 204, taskId })
      return { status: 204, body: '', headers: taskHeaders(taskId) }
    }
    const afterWait = () => databaseTextAfterWait({ context, request, reply, account }, id)
    return answerOnce(context, request, reply, { body: {}, objectId: id, work, afterWait })
  })
}
