/** Audit entries in words. Pure. */
import type { Schemas } from '../api/client.ts'
import { texts } from '../texts.ts'

type AuditEntry = Schemas['AuditEntry']

const prefix = '/managed/v1'
const one = '/[0-9a-fA-F-]{36}'

/** What a request does, by its method and path. */
const actions: readonly (readonly [pattern: RegExp, text: string])[] = (
  [
    ['POST /databases', 'create'],
    [`PATCH /databases${one}`, 'change'],
    [`DELETE /databases${one}`, 'delete'],
    [`POST /databases${one}/branches`, 'createBranch'],
    [`PATCH /databases${one}/branches${one}`, 'moveBranch'],
    [`DELETE /databases${one}/branches${one}`, 'deleteBranch'],
    [`POST /databases${one}(/branches${one})?/sql`, 'sql'],
    [`POST /databases${one}(/branches${one})?/services/[a-z]+/try`, 'try'],
    [`POST /databases${one}/backup`, 'backUp'],
    [`POST /databases${one}/restore`, 'restore'],
    [`POST /databases${one}/size`, 'resize'],
    [`POST /databases${one}/suspend`, 'suspend'],
    [`POST /databases${one}/resume`, 'resume'],
    [`POST /databases${one}/restart`, 'restart'],
    [`POST /databases${one}/undelete`, 'undelete'],
    [`POST /databases${one}/roles/[a-z_]+/rotate-password`, 'rotate'],
    [`DELETE /databases${one}/previous/[0-9]+`, 'deletePrevious'],
    [`DELETE /deleted-databases${one}`, 'purge'],
    [`POST /backups${one}/verify`, 'verify'],
    [`DELETE /backups${one}`, 'deleteBackup'],
  ] as const
).map(([pattern, name]) => [new RegExp(`^${pattern}$`), texts.audit.actions[name]])

/** In words if the request is a known one, else its method and path. */
export function actionText({ method, path }: Pick<AuditEntry, 'method' | 'path'>): string {
  const request = `${method} ${path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path}`
  return actions.find(([pattern]) => pattern.test(request))?.[1] ?? request
}

type Database = { id: string; name: string }

/** The database that an entry is about, if it exists. */
export function databaseOf(entry: AuditEntry, databases: readonly Database[]): Database | undefined {
  const [, inPath] = /\/databases\/([0-9a-f-]{36})(?:\/|$)/.exec(entry.path.toLowerCase()) ?? []
  const ids = [entry.sql?.database_id, entry.service?.database_id, inPath, entry.subject_id]
  return databases.find(({ id }) => ids.includes(id))
}

/** The text of a value, or the value itself, which an API of a later version may return. */
function named(names: Readonly<Record<string, string>>, value: string): string {
  return (Object.hasOwn(names, value) ? names[value] : undefined) ?? value
}

const tones: Readonly<Record<string, string>> = { accepted: 'good', refused: 'warning', failed: 'bad' }

export const outcomeOf = ({ outcome, status }: Pick<AuditEntry, 'outcome' | 'status'>) => ({
  text: texts.audit.outcomeOf(named(texts.audit.outcomes, outcome), status),
  tone: (Object.hasOwn(tones, outcome) ? tones[outcome] : undefined) ?? 'quiet',
})

function sqlText({ mode, role, statements, result, sqlstate }: NonNullable<AuditEntry['sql']>): string {
  const own = texts.audit.sql
  const outcome = result === undefined ? own.started : named(own.results, result)
  const ended = sqlstate === undefined ? outcome : `${outcome} (${sqlstate})`
  return own.text(named(own.modes, mode), named(texts.connect.roles, role), statements, ended)
}

function serviceText({ type, method, tool, pipeline, result, status }: NonNullable<AuditEntry['service']>): string {
  const own = texts.audit.service
  const outcome = result === undefined ? own.started : named(own.results, result)
  const ended = status === undefined ? outcome : `${outcome} (${status})`
  return own.text(type, method ?? tool ?? pipeline ?? '', ended)
}

/** What the entry has about SQL or a service; undefined for other requests. */
export function detailText({ sql, service }: Pick<AuditEntry, 'sql' | 'service'>): string | undefined {
  if (sql !== undefined) return sqlText(sql)
  return service === undefined ? undefined : serviceText(service)
}
