/** Starts an API with a database, which a real Postgres serves. The operator's code creates the roles. */
import { pino } from 'pino'
import { childNames, systemNamespace, tenantNamespace } from '../../../crds/index.ts'
import { createAuthority } from '../../../operator/pki/index.ts'
import { createAdministrator } from '../../../operator/postgres/administrator.ts'
import { connectAs, type RunningPostgres, startPostgres } from '../../../operator/postgres/testing/postgres.ts'
import { authorityConfigMap, databaseRoles } from '../../../sealing/credentials.ts'
import { type Client, createStable, startClient } from '../../testing/client.ts'
import { bearer, type Claims } from '../../testing/harness.ts'
import type { NumberedLine } from '../run.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary responses
type Anything = any

export type SqlDatabase = {
  client: Client
  postgres: RunningPostgres
  id: string
  /** The address of the endpoint. */
  url: string
  /** Sends a request, reads its response to the end, and checks it against the OpenAPI description. */
  sql: (body: object) => Promise<{ status: number; lines: Anything[]; body: Anything }>
  /** Runs one statement, and returns its rows. @throws if the statement fails */
  rows: (text: string, body?: object) => Promise<(string | null)[][]>
  /** Sends a request over a real connection. Resolves when the head of the response arrives. */
  send: (body: object, options?: { signal?: AbortSignal; claims?: Claims }) => Promise<Response>
  /** Runs SQL as a role, without the API. */
  as: (role: 'app' | 'admin' | 'app_read_only', text: string) => Promise<Anything[]>
  /** Returns the endpoint's sessions that are open in Postgres. */
  sessions: () => Promise<{ pid: number; state: string; query: string; wait: string | null }[]>
  stop: () => Promise<void>
}

const silent = pino({ level: 'silent' })
const passwordOf = (role: string): string => `password-of-${role}`

export const linesOf = (text: string): NumberedLine[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line))

export async function startSqlDatabase(options: Parameters<typeof startClient>[0] = {}): Promise<SqlDatabase> {
  let address: { host: string; port: number } | undefined
  const client = await startClient({ resolve: () => address, ...options })
  const id = await createStable(client, 'shop')
  const tls = createAuthority()
  const serverName = `${childNames.service(id)}.${tenantNamespace('acme')}.svc`
  const postgres = await startPostgres({ major: '18', tls, serverName })
  address = { host: postgres.host, port: postgres.port }
  await client.cluster.create('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: authorityConfigMap, namespace: systemNamespace },
    data: { 'ca.crt': tls.cert },
  })
  const passwords = Object.fromEntries(databaseRoles.map(role => [role, passwordOf(role)]))
  const desired = async () => ({ passwords: passwords as Anything, passwordVersion: 'm' })
  const administrator = createAdministrator({ authority: tls, now: Date.now, logger: silent })
  await administrator.ensureRoles(postgres.target, desired, new AbortController().signal)
  const url = `${await client.app.listen({ host: '127.0.0.1', port: 0 })}/managed/v1/databases/${id}/sql`

  const watcher = await connectAs(postgres, 'admin', passwordOf('admin'))
  const sql: SqlDatabase['sql'] = async body => {
    const answer = await client.call('POST', `/databases/${id}/sql`, { body })
    return { ...answer, lines: answer.status === 200 ? linesOf(answer.body) : [] }
  }
  const as: SqlDatabase['as'] = async (role, text) => {
    const connection = await connectAs(postgres, role, passwordOf(role))
    try {
      return (await connection.query(text)).rows
    } finally {
      await connection.end()
    }
  }
  return {
    ...{ client, postgres, id, url, sql, as },
    rows: async (text, body = {}) => {
      const { lines, body: response } = await sql({ text, ...body })
      if (lines.at(-1)?.type !== 'complete') throw new Error(JSON.stringify(lines.at(-1) ?? response))
      return lines.flatMap(line => (line.type === 'rows' ? line.rows : []))
    },
    send: async (body, { signal, claims } = {}) =>
      fetch(url, {
        method: 'POST',
        headers: { ...(await bearer(claims)), 'content-type': 'application/json' },
        body: JSON.stringify(body),
        ...(signal === undefined ? {} : { signal }),
      }),
    sessions: async () => {
      const text =
        "SELECT pid, state, query, wait_event AS wait FROM pg_stat_activity WHERE application_name = 'espalier sql'"
      return (await watcher.query(text)).rows
    },
    stop: async () => {
      await watcher.end()
      await client.close()
      await postgres.stop()
    },
  }
}
