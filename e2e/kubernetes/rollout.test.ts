/**
 * An upgrade does not affect serving databases. Its changes wait until the region's window, or until the owner of a
 * database restarts it. The region limits how many restart at once, and each database restarts once.
 */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createInformer } from '../../cluster/informer/index.ts'
import { labels, type ManagedDatabase } from '../../crds/index.ts'
import { type ApiClient, connect, type Database, eventually, openTo, query } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { upgradeChart } from './chart.ts'
import { minutes } from './serving.ts'

const region = 'local'

/** The number of upgraded databases, and how many may restart at once. */
const count = Number(process.env.ESPALIER_E2E_ROLLOUT_DATABASES ?? 10)
const maxConcurrent = Number(process.env.ESPALIER_E2E_ROLLOUT_AT_ONCE ?? 2)
/** The template's value that the upgrade changes, and its default. */
const grace = { before: 1800, after: 1799 }

let provider: KindProvider
let api: ApiClient
let namespace: string
let databases: Database[]

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('rollout')
  namespace = provider.namespace('rollout')
  const rules = openTo(provider.clientAddress)
  const names = Array.from({ length: count }, (_, index) => `rolled${index}`)
  databases = await Promise.all(
    names.map(async name => (await api.create({ name, pg_version: '17', ip_allowlist: rules })).body),
  )
  // The API waits at most a minute, which is too short for ten databases on a busy machine.
  for (const { id, name } of databases)
    await eventually(`${name} is available`, async () => (await api.read(id)).body.status === 'available', minutes(5))
}, minutes(10))
afterAll(async () => {
  if (provider === undefined) return
  await setWindow(undefined)
  await upgrade(grace.before)
  // The upgrade replaces the servers, which ends a kept-alive connection.
  for (const { id } of databases ?? [])
    await eventually('the database is deleted or does not exist', async () =>
      [204, 404].includes((await api.remove(id)).status),
    )
  await provider.stop()
}, minutes(15))

/** Upgrades the installed chart with one changed value for the databases' pods. */
const upgrade = (seconds: number) => upgradeChart({ 'postgres.terminationGracePeriodSeconds': String(seconds) })

async function setWindow(maintenance: object | undefined): Promise<void> {
  const patch = JSON.stringify({ spec: { maintenance: maintenance ?? null } })
  await provider.kubectl(['patch', 'region', region, '--type', 'merge', '-p', patch])
}

/** A window that opened a minute ago. */
function openNow() {
  const since = new Date(Date.now() - 60_000)
  return { schedule: `${since.getUTCMinutes()} ${since.getUTCHours()} * * *`, duration: '4h', maxConcurrent }
}

const all = async (): Promise<ManagedDatabase[]> =>
  (await provider.cluster.list('ManagedDatabase', { namespace })).items
const podsOf = async () =>
  (await provider.cluster.list('Pod', { namespace, labels: { [labels.component]: 'postgres' } })).items
const runs = async () =>
  new Map(
    (await podsOf()).map(({ metadata, status }) => [
      metadata.name,
      `${metadata.uid}/${status?.containerStatuses?.find(({ name }) => name === 'postgres')?.restartCount}`,
    ]),
  )
const restarts = async () =>
  (await provider.cluster.list('Task', { namespace })).items.filter(({ spec }) => spec.name === 'restart-managed')

test(
  'an upgrade of the chart restarts no database, and the window then restarts each database once',
  async () => {
    const before = await runs()
    expect(before.size).toBe(count)
    const sessions = await Promise.all(databases.map(async ({ id }) => connect(await api.connection(id))))
    await upgrade(grace.after)
    await eventually(
      'every database reports a pending restart',
      async () => (await all()).every(({ status }) => (status?.pendingRestart ?? []).length > 0),
      minutes(10),
    )
    expect(await runs()).toEqual(before)
    expect((await all()).map(({ status }) => status?.phase)).toEqual(databases.map(() => 'available'))
    expect(await restarts()).toEqual([])
    const answers = await Promise.all(sessions.map(session => session.query('SELECT 1 AS one')))
    expect(answers.map(({ rows }) => rows[0]?.one)).toEqual(databases.map(() => 1))
    await Promise.all(sessions.map(session => session.end()))

    let most = 0
    const made = new Map<string, Set<string>>()
    const away = new Set<string>()
    const logger = pino({ level: 'silent' })
    const watched = createInformer(provider.cluster, 'ManagedDatabase', { namespace, logger })
    watched.onChange(({ object }) => {
      const { maintenance } = object.status ?? {}
      if (maintenance !== undefined && maintenance.endedAt === undefined) away.add(object.metadata.name)
      else away.delete(object.metadata.name)
      most = Math.max(most, away.size)
    })
    const pods = createInformer(provider.cluster, 'Pod', { namespace, labels: { [labels.database]: true }, logger })
    pods.onChange(({ object, type }) => {
      const { name, uid = '' } = object.metadata
      if (type === 'set') made.set(name, (made.get(name) ?? new Set()).add(uid))
    })
    await Promise.all([watched.start(), pods.start()])

    await setWindow(openNow())
    await eventually(
      'every database is restarted and available',
      async () =>
        (await all()).every(
          ({ status }) =>
            status?.phase === 'available' &&
            status.maintenance?.outcome === 'completed' &&
            status.pendingRestart === undefined,
        ),
      minutes(20),
    )
    await Promise.all([watched.stop(), pods.stop()])
    expect(most).toBeLessThanOrEqual(maxConcurrent)
    expect([...made.values()].map(uids => uids.size)).toEqual(databases.map(() => 2))
    expect((await podsOf()).map(({ spec }) => spec?.terminationGracePeriodSeconds)).toEqual(
      databases.map(() => grace.after),
    )
    const recorded = await restarts()
    expect(recorded.map(({ spec }) => spec.subject.name).sort()).toEqual(databases.map(({ name }) => name).sort())
    // A Task ends shortly after the status of its database changes.
    await eventually('every Task of a restart has ended', async () =>
      (await restarts()).every(({ status }) => status?.finishedAt),
    )
    expect((await restarts()).map(({ status }) => status?.phase)).toEqual(databases.map(() => 'succeeded'))
    for (const { id } of databases)
      expect(await query(await api.connection(id), 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  },
  minutes(45),
)

test(
  'a restart that kubectl requests is executed, and its Task ends',
  async () => {
    await setWindow(undefined)
    const [{ id, name }] = databases as [Database]
    const before = await runs()
    await provider.kubectl(['annotate', '-n', namespace, 'mdb', name, 'espalier.dev/restart=please', '--overwrite'])
    await eventually(
      'the database is being modified',
      async () => (await api.read(id)).body.status === 'modifying',
      minutes(1),
    )
    await eventually(
      'the database is available',
      async () => (await api.read(id)).body.status === 'available',
      minutes(5),
    )
    const changed = [...(await runs())].filter(([pod, run]) => before.get(pod) !== run)
    expect(changed).toHaveLength(1)
    expect(await query(await api.connection(id), 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  },
  minutes(8),
)

test('the files that Postgres reads are next to instance.json, in every database', async () => {
  const { items } = await provider.cluster.list('ConfigMap', { namespace, labels: { [labels.component]: 'postgres' } })
  expect(items.length).toBeGreaterThanOrEqual(count)
  for (const { data } of items)
    expect(Object.keys(data ?? {}).sort()).toEqual(['instance.json', 'pg_hba.conf', 'pg_ident.conf', 'postgresql.conf'])
})
