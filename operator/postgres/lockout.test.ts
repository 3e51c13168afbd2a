/**
 * An owner damages their own database, or the operator's access to it. The operator repairs that, at no cost for other
 * databases.
 */
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pgVersions } from '../../crds/index.ts'
import { createAccess, type PostgresAccess } from '../member/postgres/access.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { operatorCommonName } from './configuration.ts'
import { withConnection } from './connection.ts'
import { type ServerState, stateQuery } from './state.ts'
import { connectAs, type RunningPostgres, startPostgres } from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const signal = new AbortController().signal

describe.each(pgVersions)('Postgres %s', major => {
  let server: RunningPostgres
  let access: PostgresAccess
  beforeAll(async () => {
    server = await startPostgres({ major })
    access = createAccess({ authority: server.authority, now: Date.now, logger: pino({ level: 'silent' }) })
    await ensure()
    await as('admin', 'app', 'CREATE DATABASE elsewhere')
  })
  afterAll(() => server?.stop())

  const ensure = () => access.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'm' }), signal)
  const observe = () => access.observe(server.target, { passwords, commits: true }, signal)
  const login = async () => (await access.login(server.target, passwords.app, signal)).result
  async function as(role: 'admin' | 'app', database: string, ...statements: string[]): Promise<void> {
    const client = await connectAs(server, role, passwords[role], database)
    try {
      for (const sql of statements) await client.query(sql)
    } finally {
      await client.end()
    }
  }
  const readState = () => {
    const certificate = issueClientCertificate(server.authority, { commonName: operatorCommonName })
    return withConnection(server.target, 'template1', certificate, signal, async connection => {
      const [row] = await connection.rows<{ state: ServerState }>(stateQuery)
      return row?.state
    })
  }

  test.each([
    ['no connections', 'elsewhere', 'ALTER DATABASE app ALLOW_CONNECTIONS false', 'refused'],
    ['a connection limit of 0', 'app', 'ALTER DATABASE app CONNECTION LIMIT 0', 'busy'],
    ['no privilege', 'app', 'REVOKE CONNECT ON DATABASE app FROM PUBLIC, app', 'refused'],
  ])('an owner who blocked all logins by allowing %s can log in again', async (_, from, sql, outcome) => {
    await as('admin', from, sql)
    expect(await login()).toBe(outcome)
    expect(await observe()).toMatchObject({ privilegesInOrder: false })
    await ensure()
    expect(await login()).toBe('succeeded')
    expect(await observe()).toMatchObject({ privilegesInOrder: true })
  })

  test.each([
    ['loads a missing library', "local_preload_libraries = 'nowhere'"],
    ['ends every session at once', 'idle_session_timeout = 1'],
    ['ends every statement at once', 'statement_timeout = 1'],
    ['has another search path', "search_path = 'elsewhere'"],
    ...(major === '16' ? [] : [['ends every transaction at once', 'transaction_timeout = 1'] as [string, string]]),
  ])('a replaced application database that %s still gets its grants', async (_, setting) => {
    const other = `replaced${performance.now()}`.replace('.', '')
    await as('admin', 'elsewhere', `ALTER DATABASE app RENAME TO ${other}`, 'CREATE DATABASE app')
    await as('admin', 'elsewhere', `ALTER DATABASE app SET ${setting}`)
    expect(await observe()).toMatchObject({ privilegesInOrder: false })
    await ensure()
    expect(await observe()).toMatchObject({ privilegesInOrder: true })
    await as('admin', 'elsewhere', 'ALTER DATABASE app RESET ALL')
  })

  test('a probe does not read more if users create many roles', async () => {
    const before = await readState()
    const made = Array.from({ length: 50 }, (_, n) => `r${n}`)
    await as('admin', 'app', ...made.map(name => `CREATE ROLE ${name}`))
    const granting = made.flatMap(name => [
      `GRANT pg_monitor TO ${name} WITH ADMIN OPTION`,
      `SET ROLE ${name}`,
      'GRANT pg_monitor TO app',
      'RESET ROLE',
    ])
    await as('admin', 'app', ...made.map(name => `GRANT ${name} TO admin`), ...granting)
    const after = await readState()
    expect((after?.memberships.length ?? 99) - (before?.memberships.length ?? 0)).toBe(1)
    expect(await observe()).toMatchObject({ privilegesInOrder: true })
  })
})
