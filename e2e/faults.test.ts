/**
 * Faults around a database: its disk, its port range, the keys, its files. They are reported, and the database
 * recovers.
 */
import { execFileSync } from 'node:child_process'
import { glob, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { systemNamespace } from '../crds/index.ts'
import { authoritySecret, sealingKeySecret } from '../sealing/credentials.ts'
import {
  type ApiClient,
  type Connection,
  connect,
  createApiClient,
  type Database,
  eventually,
  openToThisMachine,
  query,
  sqlState,
} from './client.ts'
import { canMount, fillDisk, mountDisk } from './disk.ts'
import { createHome, type Home } from './process.ts'
import { startEmbedded } from './providers/embedded.ts'

/** These tests wait a lot, so several run at once. Each has its own installation, and stops it. */
type OnFinished = TestContext['onTestFinished']

async function start(onFinished: OnFinished, options: Parameters<typeof startEmbedded>[0] = {}) {
  const provider = await startEmbedded(options)
  onFinished(() => provider.stop())
  const api = await provider.client()
  const resource = (name: string) => provider.cluster.get('ManagedDatabase', { namespace: provider.namespace(), name })
  return {
    cluster: provider.cluster,
    api,
    resource,
    condition: async (name: string, type: string) =>
      (await resource(name))?.status?.conditions?.find(each => each.type === type),
    statusOf: async ({ id }: Database) => (await api.read(id)).body.status,
    async create(name: string, more: object = {}): Promise<Database> {
      const { body } = await api.create({ name, ip_allowlist: openToThisMachine, ...more })
      // Several installations start at the same time.
      const isAvailable = async () => (await api.read(body.id)).body.status === 'available'
      await eventually(`${name} is available`, isAvailable, 120_000)
      return body
    },
  }
}

describe.runIf(canMount)('a full disk', { concurrent: true, timeout: 240_000 }, () => {
  /** An installation whose databases and logs have a separate disk. */
  async function startOnDisk(onFinished: OnFinished, megabytes: number) {
    let runtime = ''
    let unmount = () => {}
    const installation = await start(onFinished, {
      prepare: async home => {
        runtime = join(home, 'runtime')
        await mkdir(runtime)
        unmount = mountDisk(megabytes, runtime)
      },
    })
    onFinished(unmount)
    return { ...installation, runtime }
  }

  // A full disk is reported after two consecutive probes, and its end after one. This alone takes a minute.
  test('of the volumes: the database reports it, and serves again with all acknowledged writes', async ({
    onTestFinished,
  }) => {
    const { api, condition, create, runtime, statusOf } = await startOnDisk(onTestFinished, 400)
    const database = await create('filled')
    const connection = await api.connection(database.id)
    await query(connection, 'CREATE TABLE written (n int, padding text)')
    const empty = await fillDisk(join(runtime, 'volumes'))
    let acknowledged = 0
    const writing = async () => {
      const client = await connect(connection)
      for (;;) {
        await client.query(
          "INSERT INTO written SELECT $1, string_agg(md5(random()::text), '') FROM generate_series(1, 20000)",
          [acknowledged + 1],
        )
        acknowledged++
      }
    }
    await expect(writing()).rejects.toThrow()

    const full = await eventually('the condition VolumeReady is False', async () => {
      const found = await condition('filled', 'VolumeReady')
      return found?.status === 'False' && found
    })
    expect(full.reason).toBe('DiskFull')
    expect(await statusOf(database)).not.toBe('available')
    await empty()
    await eventually('the database is available again', async () => (await statusOf(database)) === 'available')
    const [row] = await query(connection, 'SELECT coalesce(max(n), 0) AS last FROM written')
    expect(row?.last).toBe(acknowledged)
    expect(await condition('filled', 'VolumeReady')).toMatchObject({ status: 'True' })
  })

  const padding = 'INSERT INTO written SELECT n, repeat(md5(n::text), 100) FROM generate_series(1, 20000) AS n'
  /** @returns when the database accepts no more writes */
  async function writeUntilFull(connection: Connection): Promise<void> {
    const writing = async () => {
      for (;;) await query(connection, padding)
    }
    await expect(writing()).rejects.toThrow()
  }

  test("which is enlarged: a database recovers without a user's action after a resize, and also if its volume grows automatically", async ({
    onTestFinished,
  }) => {
    const { api, condition, create, resource, runtime, statusOf } = await startOnDisk(onTestFinished, 500)
    const autogrow = { at_percent: 90, step_percent: 50, max_size: '1500Mi' }
    const databases = await Promise.all([create('resized'), create('growing', { storage: { autogrow } })])
    const [resized] = databases
    for (const { id } of databases) {
      const createRows = "CREATE TABLE written AS SELECT n, 'kept' AS text FROM generate_series(1, 1000) AS n"
      await query(await api.connection(id), createRows)
    }
    await fillDisk(join(runtime, 'volumes'))
    await Promise.all(databases.map(async ({ id }) => writeUntilFull(await api.connection(id))))
    for (const { name } of databases) {
      await eventually(`${name} reports the reason DiskFull`, async () => {
        return (await condition(name, 'VolumeReady'))?.reason === 'DiskFull'
      })
    }

    expect((await api.call('POST', `/databases/${resized.id}/size`, { size: 'small' })).status).toBe(204)
    await eventually(
      'the volume is grown to 1500Mi',
      async () => (await resource('growing'))?.status?.storage?.capacity === '1500Mi',
    )
    // Like a volume on a cluster whose disk grows.
    execFileSync('mount', ['-o', 'remount,size=900m', runtime])
    for (const database of databases) {
      const { id, name } = database
      const isAvailable = async () => (await statusOf(database)) === 'available'
      await eventually(`${name} is available again`, isAvailable, 120_000)
      const countRows = "SELECT count(*)::int AS rows FROM written WHERE text = 'kept'"
      expect(await query(await api.connection(id), countRows), name).toEqual([{ rows: 1000 }])
      await query(await api.connection(id), padding)
    }
    expect((await api.read(resized.id)).body.size).toBe('small')
  })

  test('of everything: writes that cannot be stored are refused, and no acknowledged write is lost', async ({
    onTestFinished,
  }) => {
    let full = ''
    let unmount = () => {}
    const { api, create } = await start(onTestFinished, {
      prepare: async home => {
        full = home
        unmount = mountDisk(400, home)
        execFileSync('chmod', ['711', home])
      },
    })
    onTestFinished(unmount)
    const database = await create('kept')
    const empty = await fillDisk(full)
    let refused: number | undefined
    for (let attempt = 0; attempt < 1_000 && refused === undefined; attempt++) {
      const { status } = await api.change(database.id, { options: [`${attempt}`.padEnd(64, 'x')] }, {})
      if (status !== 200) refused = status
    }
    expect(refused).toBe(503)
    const { options } = (await api.read(database.id)).body
    await empty()
    await eventually('the API accepts a write again', async () => {
      return (await api.change(database.id, { display_name: 'healed' }, {})).status === 200
    })
    expect((await api.read(database.id)).body).toMatchObject({ display_name: 'healed', options })
  })
})

describe.concurrent('resources taken away from an installation', { timeout: 240_000 }, () => {
  test('no port is free: the database reports it, and recovers when a port becomes free', async ({
    onTestFinished,
  }) => {
    const { api, condition, create, statusOf } = await start(onTestFinished, { ports: 2 })
    const [first] = await Promise.all([create('first'), create('second')])
    const { body: third } = await api.create({ name: 'third' }, {})
    await eventually('the database reports the reason PortRangeExhausted', async () => {
      return (await condition('third', 'EndpointReady'))?.reason === 'PortRangeExhausted'
    })
    expect(await statusOf(third)).toBe('creating')
    await api.remove(first.id)
    await eventually('the third database is available', async () => (await statusOf(third)) === 'available')
  })

  test('the sealing key, and then the authority, is missing: this is reported, it is never created again, and the installation recovers when it is restored', async ({
    onTestFinished,
  }) => {
    const { api, cluster, condition, create } = await start(onTestFinished)
    const database = await create('keyed')
    const before = await api.connection(database.id)
    const serves = async () => expect(await query(before, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
    for (const [name, reason, later] of [
      [sealingKeySecret, 'SealingKeyMissing', 'unsealed'],
      [authoritySecret, 'AuthorityMissing', 'unsigned'],
    ] as const) {
      const key = { namespace: systemNamespace, name }
      const secret = await cluster.get('Secret', key)
      if (secret === undefined) throw new Error(`no Secret ${name}`)
      await cluster.delete('Secret', key)
      const isReportedOf = async (one: string) => (await condition(one, 'KeysAvailable'))?.reason === reason
      await eventually(`the existing database reports the reason ${reason}`, () => isReportedOf('keyed'))
      await api.create({ name: later }, {})
      await eventually(`the new database reports the reason ${reason}`, () => isReportedOf(later))
      expect(await cluster.get('Secret', key), name).toBeUndefined()
      await serves()

      const { uid: _uid, resourceVersion: _version, creationTimestamp: _time, ...metadata } = secret.metadata
      await cluster.create('Secret', { ...secret, metadata })
      await eventually(`${later} is ready`, async () => (await condition(later, 'Ready'))?.status === 'True')
      expect(await api.connection(database.id), name).toEqual(before)
      await serves()
    }
  })
})

describe.concurrent('manual changes to the files of a stopped installation', { timeout: 240_000 }, () => {
  type Stopped = { database: Database; volume: string }

  const clientOf = async (home: Home) => {
    const running = await home.run()
    return createApiClient(running.api, running.token)
  }

  /** Databases with a row that identifies them, stopped; with the directories of their volumes. */
  async function stopped(home: Home, names: string[]): Promise<Stopped[]> {
    const client = await clientOf(home)
    const databases = await Promise.all(
      names.map(async name => {
        const { body } = await client.create({ name, ip_allowlist: openToThisMachine })
        await query(await client.connection(body.id), `CREATE TABLE whose AS SELECT '${name}' AS name`)
        return body
      }),
    )
    await home.stop()
    const volumes = new Map<string, string>()
    const root = join(home.path, 'runtime/volumes')
    for await (const path of glob('*/*/espalier-identity.json', { cwd: root })) {
      const identity = JSON.parse(await readFile(join(root, path), 'utf8'))
      volumes.set(identity.databaseId, dirname(join(root, path)))
    }
    return databases.map(database => {
      const volume = volumes.get(database.id)
      if (volume === undefined) throw new Error(`no volume is that of ${database.name}`)
      return { database, volume }
    })
  }

  const owner = async (client: ApiClient, { id }: Database) =>
    (await query(await client.connection(id), 'SELECT name FROM whose'))[0]?.name
  const failed = async (client: ApiClient, { id, name }: Database) => {
    await eventually(`${name} is failed`, async () => (await client.read(id)).body.status === 'failed')
    expect(await sqlState(async () => connect(await client.connection(id)))).not.toBe('none')
  }

  test("two volumes are swapped: neither database serves the other's data, and both serve when the volumes are swapped back", async ({
    onTestFinished,
  }) => {
    const home = await createHome()
    onTestFinished(() => home.remove())
    const both = await stopped(home, ['pear', 'quince'])
    const [pear = '', quince = ''] = both.map(({ volume }) => volume)
    const swap = async () => {
      await rename(pear, `${pear}.aside`)
      await rename(quince, pear)
      await rename(`${pear}.aside`, quince)
    }
    await swap()
    let client = await clientOf(home)
    for (const { database } of both) await failed(client, database)
    await home.stop()
    await swap()
    client = await clientOf(home)
    for (const { database } of both) {
      await eventually(
        `${database.name} serves its own data again`,
        async () => (await owner(client, database)) === database.name,
      )
    }
  })

  const damages: Record<string, (volume: string) => Promise<void>> = {
    'the data directory is gone': volume => rm(join(volume, 'pgdata'), { recursive: true }),
    'the data are of another version': volume => writeFile(join(volume, 'pgdata/PG_VERSION'), '15\n'),
    'the identity is torn': volume => writeFile(join(volume, 'espalier-identity.json'), '{'),
    'the identity is gone': volume => rm(join(volume, 'espalier-identity.json')),
    'the volume is emptied': async volume => {
      await rm(volume, { recursive: true })
      await mkdir(volume)
    },
  }
  const written: Record<string, string> = {
    'postgresql.conf': "fsync = off\nlisten_addresses = '0.0.0.0'\n",
    'pg_hba.conf': 'host all all all trust\n',
    'postgresql.auto.conf': 'ssl = off\n',
    'postmaster.pid': `${process.pid}\n/elsewhere\n`,
  }

  describe.concurrent('each change to the volume of another database', () => {
    const hands: Record<string, (volume: string) => Promise<void>> = {
      ...damages,
      ...Object.fromEntries(
        Object.entries(written).map(([file, content]) => [
          file,
          (volume: string) => writeFile(join(volume, 'pgdata', file), content),
        ]),
      ),
    }
    let home: Home
    let client: ApiClient
    let hurt: Map<string, Stopped>
    beforeAll(async () => {
      home = await createHome()
      const databases = await stopped(
        home,
        Object.keys(hands).map((_, index) => `hurt${index}`),
      )
      hurt = new Map(Object.keys(hands).map((what, index) => [what, databases[index] as Stopped])) // one database for each change
      for (const [what, { volume }] of hurt) await hands[what]?.(volume)
      client = await clientOf(home)
    }, 240_000)
    afterAll(() => home?.remove())
    const hurtBy = (what: string): Stopped => {
      const found = hurt.get(what)
      if (found === undefined) throw new Error(`no database was hurt: ${what}`)
      return found
    }

    test.each(Object.keys(damages))('%s: the database fails, and no new data are initialised', async what => {
      const { database, volume } = hurtBy(what)
      await failed(client, database)
      expect(await readdir(volume)).not.toContainEqual(expect.stringMatching(/^pgdata\.new-/))
    })

    test.each(Object.keys(written))('%s written by hand changes nothing', async file => {
      const { database } = hurtBy(file)
      await eventually(
        `${database.name} serves its own data`,
        async () => (await owner(client, database)) === database.name,
      )
      const connection = await client.connection(database.id)
      expect(await sqlState(() => connect({ ...connection, password: 'wrong' }))).toBe('28P01')
      expect(await sqlState(() => connect(connection, { ssl: false }))).toBe('28000')
      expect(await query(connection, "SELECT current_setting('fsync') AS fsync")).toEqual([{ fsync: 'on' }])
    })
  })
})
