/**
 * Writes one audit entry for each attempt to write, before it is answered. A request for a path that does not exist is
 * no attempt, nor is a credential refused for coming too often.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AuditDestination, AuditEntry } from '../audit.ts'
import type { App } from '../context.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The object a write made, where the path does not name it. */
    subjectId: string | undefined
  }
}

const writes = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])
const highestPathLength = 300

const outcomeOf = (status: number): AuditEntry['outcome'] =>
  status < 400 ? 'accepted' : status < 500 ? 'refused' : 'failed'

function subjectOf({ params, subjectId }: FastifyRequest): string | undefined {
  if (subjectId !== undefined) return subjectId
  const id = typeof params === 'object' && params !== null && 'id' in params ? params.id : undefined
  return typeof id === 'string' ? id.slice(0, 64) : undefined
}

function entryOf(request: FastifyRequest, reply: FastifyReply, now: number): AuditEntry {
  const taskId = reply.getHeader('x-task-id')
  return {
    time: new Date(now).toISOString(),
    request_id: request.id,
    tenant: request.principal?.tenantId,
    member: request.principal?.subject,
    address: request.ip,
    method: request.method,
    path: (request.url.split('?', 1)[0] ?? '').slice(0, highestPathLength),
    subject_id: subjectOf(request),
    task_id: typeof taskId === 'string' ? taskId : undefined,
    status: reply.statusCode,
    outcome: outcomeOf(reply.statusCode),
  }
}

export function useAudit(app: App, destination: AuditDestination, now: () => number): void {
  const onSend = (request: FastifyRequest, reply: FastifyReply, _payload: unknown, done: () => void): void => {
    const anonymousFlood = request.principal === undefined && reply.statusCode === 429
    if (!anonymousFlood) destination.write(entryOf(request, reply, now()))
    done()
  }
  // On the routes that write only: the others need not pass by.
  app.addHook('onRoute', route => {
    if ([route.method].flat().some(method => writes.has(method))) route.onSend = onSend
  })
}
