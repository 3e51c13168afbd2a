/** Describes audit entries in plain text. Pure. */
import type { Schemas } from '../api/client.ts'
import { texts } from '../texts.ts'

type AuditEntry = Schemas['AuditEntry']

const prefix = '/managed/v1'
const uuid = '/[0-9a-fA-F-]{36}'

/** The text of each known request, by its method and path. */
const actions: readonly (readonly [pattern: RegExp, text: string])[] = (
  [
    ['POST /databases', 'create'],
    [`PATCH /databases${uuid}`, 'change'],
    [`DELETE /databases${uuid}`, 'delete'],
    [`POST /databases${uuid}/branches`, 'createBranch'],
    [`PATCH /databases${uuid}/branches${uuid}`, 'moveBranch'],
    [`DELETE /databases${uuid}/branches${uuid}`, 'deleteBranch'],
    [`POST /databases${uuid}(/branches${uuid})?/sql`, 'sql'],
    [`POST /databases${uuid}(/branches${uuid})?/services/[a-z]+/try`, 'try'],
    [`POST /databases${uuid}/backup`, 'backUp'],
    [`POST /databases${uuid}/restore`, 'restore'],
    [`POST /databases${uuid}/size`, 'resize'],
    [`POST /databases${uuid}/suspend`, 'suspend'],
    [`POST /databases${uuid}/resume`, 'resume'],
    [`POST /databases${uuid}/restart`, 'restart'],
    [`POST /databases${uuid}/undelete`, 'undelete'],
    [`POST /databases${uuid}/roles/[a-z_]+/rotate-password`, 'rotate'],
    [`DELETE /databases${uuid}/previous/[0-9]+`, 'deletePrevious'],
    [`DELETE /deleted-databases${uuid}`, 'purge'],
    [`POST /backups${uuid}/verify`, 'verify'],
    [`DELETE /backups${uuid}`, 'deleteBackup'],
  ] as const
).map(([pattern, name]) => [new RegExp(`^${pattern}$`), texts.audit.actions[name]])

/** Returns the text of a known request. Returns the method and path of any other request. */
export function actionText({ method, path }: Pick<AuditEntry, 'method' | 'path'>): string {
  const request = `${method} ${path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path}`
  return actions.find(([pattern]) => pattern.test(request))?.[1] ?? request
}

type Database = { id: string; name: string }

/** Returns the database of an entry. Returns undefined if `databases` does not contain it. */
export function databaseOf(entry: AuditEntry, databases: readonly Database[]): Database | undefined {
  const [, inPath] = /\/databases\/([0-9a-f-]{36})(?:\/|$)/.exec(entry.path.toLowerCase()) ?? []
  const ids = [entry.sql?.database_id, entry.service?.database_id, inPath, entry.subject_id]
  return databases.find(({ id }) => ids.includes(id))
}

/** Returns the text of a value. Returns an unknown value unchanged: a later version of the API may add values. */
function named(names: Readonly<Record<string, string>>, value: string): string {
  return (Object.hasOwn(names, value) ? names[value] : undefined) ?? value
}

const tones: Readonly<Record<string, string>> = { accepted: 'good', refused: 'warning', failed: 'bad' }

export const outcomeOf = ({ outcome, status }: Pick<AuditEntry, 'outcome' | 'status'>) => ({
  text: texts.audit.outcomeOf(named(texts.audit.outcomes, outcome), status),
  tone: (Object.hasOwn(tones, outcome) ? tones[outcome] : undefined) ?? 'quiet',
})

function sqlText({ mode, role, statements, result, sqlstate }: NonNullable<AuditEntry['sql']>): string {
  const labels = texts.audit.sql
  const outcome = result === undefined ? labels.started : named(labels.results, result)
  const ended = sqlstate === undefined ? outcome : `${outcome} (${sqlstate})`
  return labels.text(named(labels.modes, mode), named(texts.connect.roles, role), statements, ended)
}

function serviceText({ type, method, tool, pipeline, result, status }: NonNullable<AuditEntry['service']>): string {
  const labels = texts.audit.service
  const outcome = result === undefined ? labels.started : named(labels.results, result)
  const ended = status === undefined ? outcome : `${outcome} (${status})`
  return labels.text(type, method ?? tool ?? pipeline ?? '', ended)
}

/** Describes the SQL or the service request of an entry. Returns undefined for other requests. */
export function detailText({ sql, service }: Pick<AuditEntry, 'sql' | 'service'>): string | undefined {
  if (sql !== undefined) return sqlText(sql)
  return service === undefined ? undefined : serviceText(service)
}
