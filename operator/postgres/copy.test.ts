/** A copy of a subscriber, on real servers. The copy is closed, and never contacts the publisher. */
import { execFileSync } from 'node:child_process'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { InstanceConfiguration } from '../../instance/index.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { smallShape } from '../testing/samples.ts'
import { createAdministrator, type PostgresObservation } from './administrator.ts'
import { operatorCommonName, renderConfiguration } from './configuration.ts'
import { withConnection } from './connection.ts'
import { configure, connectAs, prepare, type RunningPostgres, runPostgres, startPostgres } from './testing/postgres.ts'

const major = '18'
const signal = new AbortController().signal
const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const origin = '00000000-0000-4000-8000-000000000001'
const copyId = '00000000-0000-4000-8000-000000000002'

let publisher: RunningPostgres
let subscriber: RunningPostgres
let copy: RunningPostgres
beforeAll(async () => {
  publisher = await startPostgres({ major, settings: { wal_level: 'logical' } })
  subscriber = await startPostgres({ major, tls: publisher.authority })
})
afterAll(async () => {
  for (const server of [copy, subscriber, publisher]) await server?.stop()
})

const administrator = () =>
  createAdministrator({ authority: publisher.authority, now: Date.now, logger: pino({ level: 'silent' }) })

const superuser = <Row extends object>(server: RunningPostgres, sql: string, database = 'app') => {
  const certificate = issueClientCertificate(publisher.authority, { commonName: operatorCommonName })
  return withConnection(server.target, database, certificate, signal, connection => connection.rows<Row>(sql))
}

async function observe(server: RunningPostgres): Promise<Extract<PostgresObservation, { reachable: true }>> {
  const seen = await administrator().observe(server.target, { passwords, commits: false }, signal)
  if (!seen.reachable) throw new Error(`${seen.reason}: ${seen.message}`)
  return seen
}

const slots = () =>
  superuser(
    publisher,
    'SELECT slot_name, active, confirmed_flush_lsn::text AS confirmed FROM pg_replication_slots ORDER BY 1',
  )

/** A copy of the subscriber's volume during replication, which another instance uses. */
async function copied(): Promise<RunningPostgres> {
  const { mounts } = subscriber
  const other = await startPostgres({ major, tls: publisher.authority })
  await other.kill()
  rmSync(other.mounts.volume, { recursive: true })
  execFileSync('cp', ['-a', mounts.volume, other.mounts.volume])
  const configuration: InstanceConfiguration = {
    databaseId: copyId,
    incarnation: 1,
    pgVersion: major,
    initialise: false,
    prepareCopy: true,
    copyOf: origin,
    copyOfIncarnation: 1,
    files: renderConfiguration(smallShape, major, copyId),
  }
  configure(other.mounts, configuration)
  return restarted(other)
}

async function restarted(server: RunningPostgres): Promise<RunningPostgres> {
  prepare(server.mounts, major)
  const running = await runPostgres(server.mounts, { major })
  return { ...server, ...running, target: { ...server.target, port: running.port } }
}

test('a copy starts closed, loses slots and subscriptions without contacting the publisher, and then opens', async () => {
  await administrator().ensureRoles(publisher.target, async () => ({ passwords, passwordVersion: 'm' }), signal)
  const authenticator = { password: 'source-1', passwordVersion: 'source', anonymousRoles: [] }
  const stateLogin = { password: 'source-2', passwordVersion: 'source' }
  const mcpState = { owner: origin, isRequested: true, login: stateLogin }
  const ofSource = async () => ({ passwords, passwordVersion: 'm', authenticator, mcpState })
  await administrator().ensureRoles(subscriber.target, ofSource, signal)
  const conversing = await connectAs(subscriber, 'mcp_state', stateLogin.password, 'espalier')
  await conversing.query('CREATE TABLE conversations (id int)')
  await conversing.end()
  await superuser(publisher, 'CREATE TABLE public.sent (id int PRIMARY KEY); INSERT INTO public.sent VALUES (1)')
  await superuser(publisher, 'CREATE TABLE public.stuck (id int PRIMARY KEY); INSERT INTO public.stuck VALUES (1)')
  await superuser(
    publisher,
    'CREATE PUBLICATION news FOR TABLE public.sent, public.stuck; ALTER ROLE admin REPLICATION',
  )
  await superuser(publisher, 'GRANT SELECT ON public.sent, public.stuck TO admin')
  // Because of the existing row, the first copy of this table fails repeatedly. Its slot stays at the publisher.
  await superuser(
    subscriber,
    'CREATE TABLE public.sent (id int PRIMARY KEY); CREATE TABLE public.stuck (id int CHECK (id > 1))',
  )
  const { host, port } = publisher
  const source = `host=${host} port=${port} user=admin password=${passwords.admin} dbname=app sslmode=require`
  await superuser(publisher, "SELECT pg_create_logical_replication_slot('news', 'pgoutput')")
  // A subscription commits asynchronously. If its server were killed at once, its last changes would be lost.
  const options = "create_slot = false, slot_name = 'news', synchronous_commit = 'on'"
  await superuser(
    subscriber,
    `CREATE SUBSCRIPTION "it's news" CONNECTION '${source}' PUBLICATION news WITH (${options})`,
  )
  await superuser(subscriber, "SELECT pg_create_physical_replication_slot('standby', true)")
  await expect.poll(() => superuser(subscriber, 'SELECT id FROM public.sent'), { timeout: 30_000 }).toEqual([{ id: 1 }])
  const unready = "SELECT srsubstate AS state FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')"
  await expect.poll(() => superuser(subscriber, unready), { timeout: 30_000 }).not.toEqual([])
  await expect.poll(async () => (await slots()).length, { timeout: 30_000 }).toBeGreaterThan(1)
  await subscriber.kill()
  await superuser(publisher, 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication')
  await superuser(publisher, 'INSERT INTO public.sent VALUES (2)')
  // The processes end some time after the signal.
  const inUse = 'SELECT slot_name FROM pg_replication_slots WHERE active'
  await expect.poll(() => superuser(publisher, inUse), { timeout: 30_000 }).toEqual([])
  const before = await slots()
  expect(before.length).toBeGreaterThan(1)

  copy = await copied()
  await administrator().ensureRoles(copy.target, ofSource, signal, { opens: true })
  expect((await observe(copy)).closed).toEqual({ inherited: 2 })
  await expect(connectAs(copy, 'app', passwords.app)).rejects.toThrow(/pg_hba.conf rejects|no pg_hba.conf entry/)
  await administrator().dropInherited(copy.target, signal)
  await administrator().dropInherited(copy.target, signal)
  expect((await observe(copy)).closed).toEqual({ inherited: 0 })
  expect(await slots()).toEqual(before)

  // No service of the copy logs in with this role. The source's password must not permit it either.
  await administrator().open(copy.target, async () => ({ passwords, passwordVersion: 'm' }), signal)
  expect((await observe(copy)).closed).toEqual({ inherited: 0 })

  // The copy has its own passwords. The source's conversations still keep it closed.
  const renamed = async () => ({ passwords, passwordVersion: 'o' })
  await administrator().ensureRoles(copy.target, renamed, signal, { opens: true })
  expect((await observe(copy)).closed).toEqual({ inherited: 0 })

  // It was killed before it was opened, so it is closed again, also with the files of an earlier version on its volume.
  await copy.kill()
  const directory = join(copy.mounts.volume, 'espalier-copy')
  for (const name of ['opened.conf', 'opened.conf.d', 'opened_hba.conf', 'opened_hba.conf.d'])
    rmSync(join(directory, name), { recursive: true })
  writeFileSync(join(directory, 'opened_hba.conf'), '')
  copy = await restarted(copy)
  expect((await observe(copy)).closed).toEqual({ inherited: 0 })
  const ofCopy = { owner: copyId, isRequested: true, login: { password: 'copy-2', passwordVersion: 'copy' } }
  const desired = async () => ({
    passwords: { ...passwords, app: 'another-1' },
    passwordVersion: 'n',
    mcpState: ofCopy,
  })
  await administrator().open(copy.target, desired, signal)
  expect((await observe(copy)).closed).toEqual({ inherited: 0 })
  await administrator().ensureRoles(copy.target, desired, signal, { opens: true })
  await expect.poll(async () => (await observe(copy)).closed).toBeUndefined()
  const { configuration } = await observe(copy)
  expect(configuration).toMatchObject({ errors: [], pendingRestart: [], isMounted: true, refused: null })
  await expect(connectAs(copy, 'app', passwords.app)).rejects.toThrow(/password authentication failed/)
  await expect(connectAs(copy, 'authenticator', authenticator.password)).rejects.toThrow(/authentication failed|log in/)
  // The conversations belong to its source.
  await expect(connectAs(copy, 'mcp_state', stateLogin.password, 'espalier')).rejects.toThrow(/authentication failed/)
  const fresh = await connectAs(copy, 'mcp_state', 'copy-2', 'espalier')
  expect((await fresh.query("SELECT FROM pg_class WHERE relname = 'conversations'")).rowCount).toBe(0)
  await fresh.end()
  const client = await connectAs(copy, 'app', 'another-1')
  await client.end()

  // Files that do not exist yet cause no line in the log, at a start or at a reload.
  expect(copy.log()).toContain('received SIGHUP')
  expect(copy.log()).not.toContain('skipping missing')

  // From the next start on, the copy is like any other instance, and has its data.
  await copy.kill()
  copy = await restarted(copy)
  const workers = "SELECT setting FROM pg_settings WHERE name = 'max_logical_replication_workers'"
  expect(await superuser(copy, workers)).toEqual([{ setting: '4' }])
  expect((await observe(copy)).closed).toBeUndefined()
  expect(await superuser(copy, 'SELECT id FROM public.sent')).toEqual([{ id: 1 }])
  expect(existsSync(join(copy.mounts.volume, 'pgdata/pg_replslot/standby'))).toBe(false)
  expect(await slots()).toEqual(before)
})
