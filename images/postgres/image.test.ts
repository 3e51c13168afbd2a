/** The built images of Postgres, run as the pods of the operator. */
import { randomInt, randomUUID } from 'node:crypto'
import pg from 'pg'
import { pino } from 'pino'
import { beforeAll, describe, expect, test } from 'vitest'
import type { PgVersion, SizeShape } from '../../crds/index.ts'
import { trustIn } from '../../operator/authority/state.ts'
import { certificateDraft, serverNames } from '../../operator/endpoint/certificate.ts'
import { mintPasswords } from '../../operator/endpoint/credentials.ts'
import { serviceHost } from '../../operator/member/pod/addresses.ts'
import { postgresContainer, prepareContainer, statefulSetDraft } from '../../operator/member/pod/stateful-set.ts'
import { walProbeCommand } from '../../operator/member/pod/wal-probe.ts'
import { configurationDraft } from '../../operator/member/postgres/configuration.ts'
import { createAuthority } from '../../operator/pki/index.ts'
import { podSettings } from '../../operator/pod-settings.ts'
import { createAdministrator } from '../../operator/postgres/administrator.ts'
import type { Container } from '../testing/container.ts'
import { describeHygiene } from '../testing/hygiene.ts'
import { hasImages, isBuilt, type Opened, openImage, until } from '../testing/images.ts'
import { containerOf, type PodState } from '../testing/pod.ts'

const shape: SizeShape = {
  qosClass: 'burstable',
  cpuRequest: '100m',
  cpuLimit: '1',
  memoryRequest: '128Mi',
  memoryLimit: '256Mi',
  storageSize: '1Gi',
  temporaryDataSize: '100Mi',
  sharedMemorySize: '128Mi',
  connections: 20,
  postgresSettings: {},
}
const size = { name: 'test', version: 1 }
const owner = {
  kind: 'ManagedDatabase' as const,
  namespace: 'espalier-t-test',
  name: 'orders',
  uid: randomUUID(),
  id: randomUUID(),
  hostLabel: 'orders-01234567',
}
const authority = trustIn(createAuthority(Date.now))

/** A pod as the operator plans it, with its own volume. */
function podStateOf(directory: string, image: string, pgVersion: PgVersion): PodState {
  const pods = podSettings.parse({})
  const instance = { owner, incarnation: 1, number: 0, image, size, shape, pods }
  const draft = statefulSetDraft({ ...instance, volume: randomUUID(), suspended: false, role: 'primary' })
  const spec = draft.spec?.template.spec
  if (spec === undefined) throw new Error('a StatefulSet without a pod')
  return {
    spec,
    podIP: `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}`,
    directory,
    configMap: configurationDraft({
      owner,
      incarnation: 1,
      number: 0,
      pgVersion,
      shape,
      origin: 'initialise',
      archives: false,
    }),
    secret: certificateDraft(owner, authority, serverNames(owner, { domain: 'a.test', host: 'b.test' }), Date.now),
  }
}

function describePostgres(major: PgVersion): void {
  const name = nameOf(major)
  let opened: Opened
  let podState: PodState
  const administrator = createAdministrator({ authority, now: Date.now, logger: pino({ level: 'silent' }) })
  const passwords = mintPasswords()
  const target = () => ({ host: podState.podIP, port: 5432, serverName: serviceHost(owner), ca: authority.cert })
  const signal = () => AbortSignal.timeout(30_000)

  beforeAll(async () => {
    opened = await openImage(name)
    podState = podStateOf(opened.directory('pod'), name, major)
    return () => opened.close()
  })

  const startPostgres = async (): Promise<Container> => {
    const prepared = await opened.run(containerOf(podState, prepareContainer))
    expect(prepared).toMatchObject({ code: 0 })
    const container = opened.start(containerOf(podState, postgresContainer))
    await until(
      async () => (await administrator.observe(target(), { passwords, commits: true }, signal())).reachable,
      container.output,
    )
    return container
  }

  async function connect(user: 'admin' | 'app', database: string): Promise<pg.Client> {
    const ssl = { ca: authority.cert, servername: serviceHost(owner) }
    const client = new pg.Client({ host: podState.podIP, user, password: passwords[user], database, ssl })
    client.on('error', () => {})
    await client.connect()
    return client
  }

  describeHygiene(() => opened)

  test('is stopped fast by default', () => {
    expect(opened.image).toMatchObject({ stopSignal: 'SIGINT', entrypoint: [], command: ['postgres'] })
  })

  test('prints the usage of its espalier', async () => {
    const { code, output } = await opened.run({
      user: { uid: 10001, gid: 10001, groups: [] },
      command: ['espalier', 'instance', '--help'],
    })
    expect(output).toContain('espalier instance prepare')
    expect(code).toBe(0)
  })

  test('has the programs for the probe of WAL', async () => {
    const { code } = await opened.run(containerOf(podState, prepareContainer))
    expect(code).toBe(0)
    const command = walProbeCommand('/var/lib/espalier/data/pgdata/pg_wal', '/dev/shm/espalier-wal-probe')
    expect(await opened.run({ ...containerOf(podState, postgresContainer), command })).toMatchObject({
      code: 0,
      output: '',
    })
  })

  test('a pod of the operator initialises its volume, serves, and is stopped while clients are connected', async () => {
    const postgres = await startPostgres()
    await administrator.ensureRoles(target(), async () => ({ passwords, passwordVersion: randomUUID() }), signal())
    const seen = await administrator.observe(target(), { passwords, commits: true }, signal())
    expect(seen).toMatchObject({ reachable: true, checksums: true, applicationDatabase: true, privilegesInOrder: true })
    expect(seen.reachable && Math.floor(seen.serverVersion / 10_000)).toBe(Number(major))

    const admin = await connect('admin', 'app')
    const { rows: locale } = await admin.query(
      "SELECT datlocprovider AS provider, pg_encoding_to_char(encoding) AS encoding, datcollate AS collation FROM pg_database WHERE datname = 'app'",
    )
    expect(locale).toEqual([{ provider: major === '16' ? 'c' : 'b', encoding: 'UTF8', collation: 'C.UTF-8' }])
    await admin.query("CREATE DATABASE english LOCALE_PROVIDER libc LOCALE 'en_US.UTF-8' TEMPLATE template0")
    await admin.query('DROP DATABASE english')
    const { rows: sorted } = await admin.query(`SELECT 'b' COLLATE "de-x-icu" > 'ä' AS german`)
    expect(sorted).toEqual([{ german: true }])
    const { rows: zone } = await admin.query("SELECT timestamptz '2026-07-01 12:00 Europe/Berlin' AS at")
    expect(zone).toEqual([{ at: new Date('2026-07-01T10:00:00Z') }])

    for (const extension of ['vector', 'pg_trgm', 'hstore', 'postgres_fdw']) {
      const { rows } = await admin.query('SELECT 1 FROM pg_available_extensions WHERE name = $1', [extension])
      expect(rows, extension).toHaveLength(1)
    }
    await admin.query('CREATE EXTENSION vector')
    const { rows: distance } = await admin.query("SELECT '[1,2,2]'::vector <-> '[0,0,0]' AS distance")
    expect(distance).toEqual([{ distance: 3 }])

    // A sort that spills to disk, and a parallel query, which uses shared memory.
    await admin.query(
      "SET work_mem = '64kB'; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0",
    )
    await admin.query('CREATE TABLE numbers AS SELECT generate_series(1, 200000) AS n')
    const { rows: sums } = await admin.query(
      'SELECT sum(n)::text FROM (SELECT n FROM numbers ORDER BY n DESC) AS all_of_them',
    )
    expect(sums).toEqual([{ sum: '20000100000' }])

    // Each process has a hash table in shared memory, of the maximum size that the size's settings allow.
    await admin.query('CREATE TABLE words AS SELECT md5(n::text) AS word FROM generate_series(1, 500000) AS n')
    await admin.query('ANALYZE words')
    const join = 'SELECT count(*)::int AS count FROM words AS a JOIN words AS b USING (word)'
    const { rows: plan } = await admin.query(`EXPLAIN ${join}`)
    expect(JSON.stringify(plan)).toContain('Parallel Hash')
    const joined = Array.from({ length: 4 }, async () => {
      const client = await connect('admin', 'app')
      try {
        return (await client.query(join)).rows
      } finally {
        await client.end()
      }
    })
    expect(await Promise.all(joined)).toEqual(Array(4).fill([{ count: 500_000 }]))

    const started = performance.now()
    postgres.kill('SIGINT')
    expect(await postgres.exited).toBe(0)
    expect(performance.now() - started).toBeLessThan(5_000)
    expect(postgres.output()).toContain('database system is shut down')
    await admin.end().catch(() => {})

    const again = await startPostgres()
    const app = await connect('admin', 'app')
    expect((await app.query('SELECT count(*)::int AS count FROM numbers')).rows).toEqual([{ count: 200_000 }])
    await app.end()
    again.kill('SIGINT')
    expect(await again.exited).toBe(0)
  })
}

const nameOf = (major: PgVersion): string => `localhost/espalier-postgres:${major}`

if (hasImages) {
  // 16 can only be built if the PostgreSQL project's own packages are reachable.
  const majors: PgVersion[] = (await isBuilt(nameOf('16'))) ? ['16', '17', '18'] : ['17', '18']
  for (const major of majors) describe(`image of Postgres ${major}`, () => describePostgres(major))
} else test.skip('images of Postgres: need ESPALIER_TEST_IMAGES')
