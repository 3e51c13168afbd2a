/**
 * An owner that is not a ManagedDatabase runs a real Postgres behind the real gateway, with only this folder's code.
 */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { childNames, labels, systemNamespace } from '../../crds/index.ts'
import { applicationDatabase, open, sealingKeySecret, secretLocation } from '../../sealing/credentials.ts'
import { createAccess } from '../member/postgres/access.ts'
import { targetAt } from '../member/postgres/target.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { DataSource, InstanceSpec, InstanceStatus } from '../objects/instance.ts'
import { ownerKindAnnotation, ownerOf } from '../objects/ownership.ts'
import { issueClientCertificate } from '../pki/index.ts'
import { createAdministrator, type PostgresTarget } from '../postgres/administrator.ts'
import { operatorCommonName } from '../postgres/configuration.ts'
import { withConnection } from '../postgres/connection.ts'
import { startPostgres } from '../postgres/testing/postgres.ts'
import { eventually, type Installation, silent, testConfiguration, testNamespace } from '../testing/installation.ts'
import { openRealInstallation } from '../testing/real-installation.ts'
import { scratchFinalizer, startScratchOwner } from '../testing/scratch-owner.ts'

type Scratch = { id: string; name: string }
const first: Scratch = { id: randomUUID(), name: 'scratch' }
const second: Scratch = { id: randomUUID(), name: 'copy' }
const keyOf = ({ name }: Scratch) => ({ namespace: testNamespace, name })
let installation: Installation
let scratch: Awaited<ReturnType<typeof startScratchOwner>>

const start = () =>
  startScratchOwner({
    cluster: installation.store.connect('scratch'),
    access: createAccess({ authority: installation.authority, now: Date.now, logger: silent }),
    images: testConfiguration.images.postgres,
    pods: testConfiguration.pods,
  })

beforeAll(async () => {
  installation = await openRealInstallation(4)
  scratch = await start()
})
afterAll(async () => {
  await scratch.stop()
  await installation.close()
})

const spec: InstanceSpec = {
  region: 'here',
  size: { name: 'small', version: 1 },
  pgVersion: '18',
  suspended: false,
  ipAllowlist: { rules: [{ cidr: '127.0.0.1' }] },
}
const create = (scratch: Scratch, source?: DataSource) =>
  installation.cluster.create('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      ...keyOf(scratch),
      labels: { [labels.id]: scratch.id, scratch: 'true' },
      finalizers: [scratchFinalizer],
    },
    data: { spec: JSON.stringify(spec), ...(source === undefined ? {} : { source: JSON.stringify(source) }) },
  })
const owner = (scratch = first) => installation.cluster.get('ConfigMap', keyOf(scratch))
const statusOf = async (scratch = first): Promise<InstanceStatus> =>
  JSON.parse((await owner(scratch))?.data?.status ?? '{}')
const change = async (more: Partial<InstanceSpec>, scratch = first) => {
  for (;;) {
    const map = await owner(scratch)
    if (map === undefined) throw new Error('the owner is gone')
    const data = { ...map.data, spec: JSON.stringify({ ...spec, ...more }) }
    const written = await installation.cluster.replace('ConfigMap', { ...map, data }).catch(() => undefined)
    if (written !== undefined) return
  }
}
const ready = (reason: string, scratch = first) =>
  eventually(
    async () => conditionOf(await statusOf(scratch), 'Ready')?.reason,
    found => found === reason,
    { withinMs: 60_000 },
  )

/** Connects like a user's client, through the gateway. */
async function query(sql: string, scratch = first): Promise<unknown[]> {
  const { cluster, authority } = installation
  const name = childNames.credentials(scratch.id)
  const sealing = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  const secret = await cluster.get('Secret', { namespace: testNamespace, name })
  const sealed = Buffer.from(secret?.data?.app ?? '', 'base64').toString('utf8')
  const sealingKey = Buffer.from(sealing?.data?.key ?? '', 'base64')
  const client = new pg.Client({
    host: '127.0.0.1',
    port: (await statusOf(scratch)).endpoint?.port ?? 0,
    user: 'app',
    database: applicationDatabase,
    password: open(sealingKey, secretLocation(testNamespace, name, 'app'), sealed),
    ssl: { ca: authority.cert },
  })
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query(sql)
  await client.end()
  return rows
}

test('it is created, serves, is suspended, resumes with its data, and is deleted completely', async () => {
  const { cluster } = installation
  await create(first)
  await ready('Serving')
  await query('CREATE TABLE kept AS SELECT 7 AS value')
  const { volume } = await statusOf()
  expect(volume?.systemIdentifier).toMatch(/^[0-9]{19}$/)

  await change({ suspended: true })
  await ready('Suspended')
  await scratch.stop()
  scratch = await start()
  await change({})
  await ready('Serving')
  expect(await query('SELECT value FROM kept')).toEqual([{ value: 7 }])
  expect((await statusOf()).volume).toEqual(volume)

  const objectLabels = { [labels.database]: first.id }
  const kinds = ['StatefulSet', 'Pod', 'Service', 'PersistentVolumeClaim', 'Secret', 'ConfigMap'] as const
  const children = async () =>
    (await Promise.all(kinds.map(kind => cluster.list(kind, { labels: objectLabels })))).flatMap(({ items }) =>
      items.map(item => item),
    )
  const annotated = (await children()).filter(({ kind }) => kind !== 'Pod')
  expect(annotated.length).toBeGreaterThan(5)
  expect(new Set(annotated.map(({ metadata }) => metadata.annotations?.[ownerKindAnnotation]))).toEqual(
    new Set(['ConfigMap']),
  )

  await cluster.delete('ConfigMap', keyOf(first))
  await eventually(
    () => owner(),
    found => found === undefined,
    { withinMs: 60_000 },
  )
  expect(await children()).toEqual([])
  const volumes = async () => (await cluster.list('PersistentVolume', { labels: objectLabels })).items
  await eventually(volumes, found => found.length === 0)
})

/**
 * A subscriber of a real publisher is copied while its own subscription is idle. Its copy receives nothing from the
 * publisher.
 */
test('a copy has its own credentials, and neither slots nor subscriptions of its source', async () => {
  const { cluster, authority } = installation
  const publisher = await startPostgres({ major: '18', settings: { wal_level: 'logical' }, tls: authority })
  onTestFinished(publisher.stop)
  const administrator = createAdministrator({ authority, now: Date.now, logger: silent })
  const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
  const { signal } = new AbortController()
  await administrator.ensureRoles(publisher.target, async () => ({ passwords, passwordVersion: 'm' }), signal)
  const certificate = issueClientCertificate(authority, { commonName: operatorCommonName })
  const superuser = (target: PostgresTarget, sql: string) =>
    withConnection(target, applicationDatabase, certificate, signal, connection => connection.rows(sql))
  const atPublisher = (sql: string) => superuser(publisher.target, sql)
  await atPublisher('CREATE TABLE public.sent (id int PRIMARY KEY); CREATE PUBLICATION news FOR TABLE public.sent')
  await atPublisher('ALTER ROLE admin REPLICATION; GRANT SELECT ON public.sent TO admin')
  await atPublisher("SELECT pg_create_logical_replication_slot('news', 'pgoutput')")

  await create(first)
  await ready('Serving')
  const targetOf = async ({ id }: Scratch) => {
    const key = { namespace: testNamespace, name: childNames.pod(id, 1) }
    const address = (await cluster.get('Pod', key))?.status?.podIP ?? ''
    const of = ownerOf({ kind: 'ConfigMap', metadata: (await owner())?.metadata ?? { name: '' } }, id)
    return targetAt(of, address, { accepted: authority.cert })
  }
  const { host, port } = publisher
  const source = `host=${host} port=${port} user=admin password=${passwords.admin} dbname=app sslmode=require`
  await superuser(await targetOf(first), 'CREATE TABLE public.sent (id int PRIMARY KEY)')
  await superuser(
    await targetOf(first),
    `CREATE SUBSCRIPTION news CONNECTION '${source}' PUBLICATION news WITH (create_slot = false, synchronous_commit = 'on')`,
  )
  await superuser(await targetOf(first), "SELECT pg_create_physical_replication_slot('standby', true)")
  await atPublisher('INSERT INTO public.sent VALUES (1)')
  const sent = (scratch: Scratch) => targetOf(scratch).then(target => superuser(target, 'SELECT id FROM public.sent'))
  await eventually(
    () => sent(first),
    rows => rows.length === 1,
    { withinMs: 30_000 },
  )

  const { volume } = await statusOf()
  await cluster.create('VolumeSnapshot', {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshot',
    metadata: { namespace: testNamespace, name: 'cut' },
    spec: { source: { persistentVolumeClaimName: volume?.claim ?? '' } },
  })
  await eventually(
    () => cluster.get('VolumeSnapshot', { namespace: testNamespace, name: 'cut' }),
    found => found?.status?.readyToUse === true,
    { withinMs: 30_000 },
  )
  await change({ suspended: true })
  await ready('Suspended')
  await atPublisher('INSERT INTO public.sent VALUES (2)')
  const slots = () =>
    atPublisher('SELECT slot_name, active, confirmed_flush_lsn::text AS lsn FROM pg_replication_slots')
  const before = await slots()
  expect(before).toMatchObject([{ slot_name: 'news', active: false }])

  const gigabyte = 2 ** 30
  await create(second, {
    kind: 'snapshot',
    snapshot: 'cut',
    id: first.id,
    incarnation: 1,
    systemIdentifier: volume?.systemIdentifier ?? '',
    bytes: 3 * gigabyte,
  })
  await ready('Serving', second)
  expect(await query('SELECT id FROM public.sent', second).catch(error => error.message)).toMatch(/permission denied/)
  expect(await sent(second)).toEqual([{ id: 1 }])
  const leftQuery =
    'SELECT (SELECT count(*) FROM pg_subscription)::int + (SELECT count(*) FROM pg_replication_slots)::int AS n'
  expect(await superuser(await targetOf(second), leftQuery)).toEqual([{ n: 0 }])
  expect(await slots()).toEqual(before)
  const copied = await statusOf(second)
  expect(copied.volume?.systemIdentifier).toBe(volume?.systemIdentifier)
  expect(copied.volume?.uid).not.toBe(volume?.uid)
  const claim = await cluster.get('PersistentVolumeClaim', {
    namespace: testNamespace,
    name: copied.volume?.claim ?? '',
  })
  expect(claim?.spec?.resources?.requests?.storage).toBe(String(3 * gigabyte))

  // The source's subscription continues at its position.
  await change({})
  await ready('Serving')
  await eventually(
    () => sent(first),
    rows => rows.length === 2,
    { withinMs: 30_000 },
  )
  expect(await sent(second)).toEqual([{ id: 1 }])
})
