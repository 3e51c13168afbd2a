/** `/audit`: the audit log, newest entry first (docs/decisions/0107-readable-audit-log.md). */
import type { z } from 'zod'
import { basePath, sendJson } from '../answers.ts'
import { byDatabase, idOf } from '../caches.ts'
import type { ApiContext, App } from '../context.ts'
import { backupsOf } from '../databases/moment.ts'
import { operation } from '../operation.ts'
import { accountOf } from '../plugins/tenant.ts'
import { auditEntryShape, listAuditQuery } from './schema.ts'
import type { StoredEntry } from './segment.ts'

/** Whether an entry is about a database, its branches, or its backups that exist. */
function aboutDatabase(context: ApiContext, namespace: string, id: string): (entry: StoredEntry) => boolean {
  const { Branch } = context.caches
  const branches = Branch.byIndex(byDatabase, id).filter(({ metadata }) => metadata.namespace === namespace)
  const objects = [...branches, ...backupsOf(context, namespace, id)].map(idOf)
  const ids = new Set<string | undefined>([id, ...objects.filter(objectId => objectId !== undefined)])
  const paths = [`${basePath}/databases/${id}`, `${basePath}/deleted-databases/${id}`]
  return ({ path, subject_id: subject, sql, service }) => {
    const lower = path.toLowerCase()
    const isInPath = paths.some(prefix => lower === prefix || lower.startsWith(`${prefix}/`))
    return isInPath || ids.has(subject?.toLowerCase()) || [sql?.database_id, service?.database_id].includes(id)
  }
}

type Range = Pick<z.output<typeof listAuditQuery>, 'since' | 'until'>

function within({ since, until }: Range): (entry: StoredEntry) => boolean {
  const from = since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(since)
  const to = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until)
  return ({ time }) => Date.parse(time) >= from && Date.parse(time) < to
}

/** The path of the next page (RFC 8288). */
function linkTo(url: string, limit: number, cursor: string): string {
  const [path = '', search = ''] = url.split('?', 2)
  const query = new URLSearchParams(search)
  query.set('limit', String(limit))
  query.set('cursor', cursor)
  return `<${path}?${query}>; rel="next"`
}

export function addAuditLog(app: App, context: ApiContext): void {
  const schema = operation(
    {
      operationId: 'listAuditEntries',
      tag: 'audit',
      summary: 'List audit entries',
      description:
        'Lists the newest entries first. Each POST, PATCH, PUT and DELETE has one entry, also if the API refused it. A request that runs SQL or tries a service has two entries. Entries of other replicas of the API appear after some seconds. The API keeps the newest 256 KiB of compressed entries, for at most 30 days. The log of the API has all entries. Returns 503 if the cluster cannot store entries.',
      success: {
        status: 200,
        description: 'One page of entries.',
        shape: auditEntryShape.array(),
        headers: ['X-Applied-Limit', 'Link'],
      },
      errors: [400],
    },
    { querystring: listAuditQuery },
  )
  app.get('/audit', { schema }, async (request, reply) => {
    const { namespace, tenantId } = accountOf(request)
    const { database_id: databaseId, outcome, limit, cursor, ...range } = request.query
    const isInTime = within(range)
    const isAbout = databaseId === undefined ? () => true : aboutDatabase(context, namespace, databaseId)
    const isMeant = (entry: StoredEntry) =>
      (outcome === undefined || entry.outcome === outcome) && isInTime(entry) && isAbout(entry)
    const { entries, hasMore } = await context.readAudit({ namespace, tenantId }, { limit, cursor, isMeant })
    const last = entries.at(-1)
    reply.header('X-Applied-Limit', String(limit))
    if (hasMore && last !== undefined) reply.header('Link', linkTo(request.url, limit, last.id))
    return sendJson(reply, JSON.stringify(entries))
  })
}
