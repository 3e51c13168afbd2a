/** `espalier audit`: lists the audit log: attempts to change something, newest first. */
import type { AuditEntry } from '../api/shapes.ts'
import { act, type ClientCommand, createCommand, databaseOption, integer } from '../arguments.ts'
import type { Column } from '../output/table.ts'
import { findProject } from '../project.ts'
import { chosenDatabase } from '../session.ts'
import { sinceTime } from './logs.ts'

type Options = { database?: string; since?: string; limit: number }

const prefix = '/managed/v1'
const mostEntries = 1000

const pathText = (path: string): string => (path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : path)

function sqlText({ sql }: AuditEntry): string | undefined {
  if (sql === undefined) return undefined
  const { mode, role, statements, result = 'started', sqlstate } = sql
  const count = statements === 1 ? '1 statement' : `${statements} statements`
  return `${mode} as ${role}, ${count}: ${sqlstate === undefined ? result : `${result} ${sqlstate}`}`
}

function serviceText({ service }: AuditEntry): string | undefined {
  if (service === undefined) return undefined
  const { type, method, tool, pipeline, result = 'started', status } = service
  const what = [type, method ?? tool ?? pipeline].filter(part => part !== undefined).join(' ')
  return `${what}: ${status === undefined ? result : `${result} ${status}`}`
}

const columns: readonly Column<AuditEntry>[] = [
  { title: 'TIME', value: ({ time }) => time },
  { title: 'MEMBER', value: ({ member }) => member },
  { title: 'OUTCOME', value: ({ outcome, status }) => `${outcome} ${status}` },
  { title: 'REQUEST', value: ({ method, path }) => `${method} ${pathText(path)}` },
  { title: 'SQL OR SERVICE', value: entry => sqlText(entry) ?? serviceText(entry) },
]

const command: ClientCommand = run => {
  const parsed = databaseOption(
    createCommand(run, 'audit', 'Lists the audit log of the account, or of one database and its branches.'),
  )
    .option('--since <time>', 'only entries since this time: 10m, 2h or 2026-01-31T12:00:00Z')
    .option('--limit <count>', 'how many entries', integer(1, mostEntries), 50)
  return act<Options>(run, parsed, async (session, _, { database: name, since, limit }) => {
    const isOfOne = name !== undefined || (await findProject(session.io.directory)) !== undefined
    const chosen = isOfOne ? (await chosenDatabase(session, name)).database : undefined
    const client = await session.client()
    const start = since === undefined ? undefined : sinceTime(since)
    const entries = await client.audit({ database_id: chosen?.id, since: start }, limit)
    session.printer.list(entries, columns, ({ id }) => id, 'No audit entries.')
  })
}
export default command
