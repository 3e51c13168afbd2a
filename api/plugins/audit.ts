/**
 * Writes one audit entry for each write attempt: for a successful write as soon as it is done, before any wait; for a
 * refused one before its response. Requests for unknown paths and requests over a rate limit are not logged, since they
 * could fill the disk (metrics count them).
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isRecord } from '../../values/record.ts'
import type { Audit, AuditDestination, AuditEntry, DoneWrite } from '../audit.ts'
import type { App } from '../context.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The object that a write created, if the path does not name it. */
    subjectId: string | undefined
  }
}

type AuditPlugin = Audit & {
  /** Logs every other write attempt on the routes of the scope. */
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

function entryOf(
  request: FastifyRequest,
  { status, taskId, subjectId, sql, service }: DoneWrite,
  now: number,
): AuditEntry {
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
    ...(sql === undefined ? {} : { sql }),
    ...(service === undefined ? {} : { service }),
  }
}

type Destination = Pick<AuditDestination, 'write'>

export function createAudit(destinations: readonly Destination[], now: () => number): AuditPlugin {
  const noted = new WeakSet<FastifyRequest>()

  function write(request: FastifyRequest, what: DoneWrite): void {
    const entry = entryOf(request, what, now())
    for (const destination of destinations) destination.write(entry)
  }

  function done(request: FastifyRequest, what: DoneWrite): void {
    if (noted.has(request)) return
    noted.add(request)
    write(request, what)
  }

  const onSend = (request: FastifyRequest, reply: FastifyReply, _payload: unknown, next: () => void): void => {
    const taskId = reply.getHeader('x-task-id')
    const status = reply.statusCode
    if (status !== 429) done(request, { status, taskId: typeof taskId === 'string' ? taskId : undefined })
    next()
  }

  return {
    done,
    also: write,
    // Only on routes that write, to spare the others the cost.
    watch: app =>
      void app.addHook('onRoute', route => {
        if ([route.method].flat().some(method => writes.has(method))) route.onSend = onSend
      }),
  }
}
