/**
 * Writes one audit entry for each attempt to write: of a write that was done as soon as it is done, before anything is
 * waited for; of one that was refused before it is answered. A request for a path that does not exist is no attempt,
 * nor is what is refused for coming too often: as much would fill the disk (the metrics count it).
 */
// @ts-nocheck

import type { FastifyReply, FastifyRequest } from 'fastify'
import { isRecord } from '../../values/record.ts'
import type { Audit, AuditDestination, AuditEntry, DoneWrite } from '../audit.ts'
import type { App } from '../context.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The object a write made, where the path does not name it. */
    subjectId: string | undefined
  }
}

type AuditPlugin = Audit & {
  /** Notes every other attempt on the routes of the scope that write. */
  watch(app: App): void
}

const writes = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])
const highestPathLength = 300

const outcomeOf = (status: number): AuditEntry['outcome'] =>
  status < 400 ? 'accepted' : status < 500 ? 'refused' : 'failed'

function subjectOf({ params, subjectId }: FastifyRequest): string | undefined {
  if (subjectId !== undefined) return subjectId
  const id = isRecord(params) && 'id' in params ? params.id : undefined
  return typeof id === 'string' ? id.slice(0, 64) : undefined
}

function entryOf(request: FastifyRequest, { status, taskId, subjectId }: DoneWrite, now: number): AuditEntry {
  return {
    time: new Date(now).toISOString(),
    request_id: request.id,
    tenant: request.principal?.tenantId,
    member: request.principal?.subject,
    address: request.ip,
    method: request.method,
    path: (request.url.split('?', 1)[0] ?? '').slice(0, highestPathLength),
    subject_id: subjectId ?? subjectOf(request),
    task_id: taskId,
    status,
    outcome: outcomeOf(status),
  }
}

export function createAudit(destination: AuditDestination, now: () => number): AuditPlugin {
  const noted = new WeakSet<FastifyRequest>()

  function done(request: FastifyRequest, what: DoneWrite): void {
    if (noted.has(request)) return
    noted.add(request)
    destination.write(entryOf(request, what, now()))
  }

  const onSend = (request: FastifyRequest, reply: FastifyReply, _payload: unknown, next: () => void): void => {
    const taskId = reply.getHeader('x-task-id')
    const status = reply.statusCode
    if (status !== 429) done(request, { status, taskId: typeof taskId === 'string' ? taskId : undefined })
    next()
  }

  return {
    done,
    // On the routes that write only: the others need not pass by.
    watch: app =>
      void app.addHook('onRoute', route => {
        if ([route.method].flat().some(method => writes.has(method))) route.onSend = onSend
      }),
  }
}
