/** What fails around a database: its disk, its port range, the keys, its very files. It is said, and it heals. */
// @ts-nocheck

import { execFileSync } from 'node:child_process'
import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ManagedDatabase, systemNamespace } from '../crds/index.ts'
import { authoritySecret, sealingKeySecret } from '../sealing/credentials.ts'
import {
  type ApiClient,
  connect,
  createApiClient,
  type Database,
  eventually,
  openToThisMachine,
  query,
  sqlState,
} from './client.ts'
import { createHome, type Home } from './process.ts'
import { type EmbeddedProvider, startEmbedded } from './providers/embedded.ts'

const isRoot = process.getuid?.() === 0
let provider: EmbeddedProvider
let api: ApiClient

const start = async (options: Parameters<typeof startEmbedded>[0] = {}) => {
  provider = await startEmbedded(options)
  api = await provider.client()
}
const resource = async (name: string): Promise<ManagedDatabase | undefined> =>
  provider.cluster.get('ManagedDatabase', { namespace: provider.namespace(), name })
const condition = async (name: string, type: string) =>
  (await resource(name))?.status?.conditions?.find(each => each.type === type)
const statusOf = async ({ id }: Database) => (await api.read(id)).body.status
const create = async (name: string): Promise<Database> => {
  const { body } = await api.create({ name, ip_allowlist: openToThisMachine })
  expect(body.status).toBe('available')
  return body
}

describe.runIf(isRoot)('a disk that is really full', () => {
  const mounts: string[] = []
  const mount = (megabytes: number, directory: string) => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory])
    mounts.push(directory)
  }
  afterEach(async () => {
    for (const directory of mounts.splice(0).reverse()) execFileSync('umount', ['-l', directory])
    await provider.stop()
  })

  /** A file that takes all the room there is. */
  async function fill(directory: string): Promise<() => Promise<void>> {
    const ballast = join(directory, 'ballast')
    const file = await open(ballast, 'w')
    // Written and not reserved: who else writes here meanwhile changes how much there is.
    const zeros = Buffer.alloc(65_536)
    try {
      await expect(
        (async () => {
          for (;;) await file.write(zeros)
        })(),
      ).rejects.toMatchObject({ code: 'ENOSPC' })
    } finally {
      await file.close()
    }
    return () => rm(ballast)
  }

  // Two probes in a row say that it is full, and one that it is not: a minute by itself.
  test('of the volumes: the database says so, and serves again with all that it acknowledged', {
    timeout: 180_000,
  }, async () => {
    let volumes = ''
    await start({
      prepare: async home => {
        const runtime = join(home, 'runtime')
        await mkdir(runtime)
        mount(400, runtime)
        volumes = join(runtime, 'volumes')
      },
    })
    const database = await create('filled')
    const connection = await api.connection(database.id)
    await query(connection, 'CREATE TABLE written (n int, padding text)')
    const empty = await fill(volumes)
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

    const full = await eventually('the condition', async () => {
      const found = await condition('filled', 'VolumeReady')
      return found?.status === 'False' && found
    })
    expect(full.reason).toBe('DiskFull')
    expect(await statusOf(database)).not.toBe('available')
    await empty()
    await eventually('available again', async () => (await statusOf(database)) === 'available')
    const [row] = await query(connection, 'SELECT coalesce(max(n), 0) AS last FROM written')
    expect(row?.last).toBe(acknowledged)
    expect(await condition('filled', 'VolumeReady')).toMatchObject({ status: 'True' })
  })

  /** Full, and said to be; with what was acknowledged before that. */
  async function filled(name: string, more: object = {}) {
    let runtime = ''
    await start({
      prepare: async home => {
        runtime = join(home, 'runtime')
        await mkdir(runtime)
        mount(400, runtime)
      },
    })
    const { body: database } = await api.create({ name, ip_allowlist: openToThisMachine, ...more })
    const connection = await api.connection(database.id)
    await query(connection, "CREATE TABLE written AS SELECT n, 'kept' AS text FROM generate_series(1, 1000) AS n")
    await fill(join(runtime, 'volumes'))
    const padding = 'INSERT INTO written SELECT n, repeat(md5(n::text), 100) FROM generate_series(1, 20000) AS n'
    const writing = async () => {
      for (;;) await query(connection, padding)
    }
    await expect(writing()).rejects.toThrow()
    await eventually('the condition', async () => (await condition(name, 'VolumeReady'))?.reason === 'DiskFull')
    return {
      database,
      /** As a volume does on a cluster, where it is the disk that grows. */
      grow: () => execFileSync('mount', ['-o', 'remount,size=700m', runtime]),
      isWhole: async () => {
        await eventually('available again', async () => (await statusOf(database)) === 'available', 120_000)
        const kept = "SELECT count(*)::int AS rows FROM written WHERE text = 'kept'"
        expect(await query(connection, kept)).toEqual([{ rows: 1000 }])
        await query(connection, padding)
      },
    }
  }

  test('of a database that is given another size, which brings it back by itself', { timeout: 240_000 }, async () => {
    const { database, grow, isWhole } = await filled('resized')
    expect((await api.call('POST', `/databases/${database.id}/size`, { size: 'small' })).status).toBe(204)
    grow()
    await isWhole()
    expect((await api.read(database.id)).body.size).toBe('small')
  })

  test('of a database whose volume grows by itself: nobody has to do anything', { timeout: 240_000 }, async () => {
    const autogrow = { at_percent: 90, step_percent: 50, max_size: '1500Mi' }
    const { grow, isWhole } = await filled('growing', { storage: { autogrow } })
    await eventually('the growth', async () => (await resource('growing'))?.status?.storage?.capacity === '1500Mi')
    grow()
    await isWhole()
  })

  test('of everything: what cannot be kept is refused, and nothing acknowledged is lost', async () => {
    let full = ''
    await start({
      prepare: async home => {
        full = home
        mount(700, home)
        execFileSync('chmod', ['711', home])
      },
    })
    const database = await create('kept')
    const empty = await fill(full)
    let refused: number | undefined
    for (let attempt = 0; attempt < 1_000 && refused === undefined; attempt++) {
      const { status } = await api.change(database.id, { options: [`${attempt}`.padEnd(64, 'x')] }, {})
      if (status !== 200) refused = status
    }
    expect(refused).toBe(503)
    const { options } = (await api.read(database.id)).body
    await empty()
    await eventually('writes are taken again', async () => {
      return (await api.change(database.id, { display_name: 'healed' }, {})).status === 200
    })
    expect((await api.read(database.id)).body).toMatchObject({ display_name: 'healed', options })
  })
})

describe('what is taken away from an installation', () => {
  afterEach(() => provider.stop())

  test('the ports run out: said, and healed by a port that comes free', async () => {
    await start({ ports: 2 })
    const [first] = [await create('first'), await create('second')]
    const { body: third } = await api.create({ name: 'third' }, {})
    await eventually('the condition', async () => {
      return (await condition('third', 'EndpointReady'))?.reason === 'PortRangeExhausted'
    })
    expect(await statusOf(third)).toBe('creating')
    await api.remove(first?.id ?? '')
    await eventually('available', async () => (await statusOf(third)) === 'available')
  })

  test.each([
    ['sealing key', sealingKeySecret, 'SealingKeyMissing'],
    ['authority', authoritySecret, 'AuthorityMissing'],
  ])('the %s is gone: said, never made again, and healed when it is back', async (_, name, reason) => {
    await start()
    const database = await create('keyed')
    const before = await api.connection(database.id)
    const key = { namespace: systemNamespace, name }
    const secret = await provider.cluster.get('Secret', key)
    if (secret === undefined) throw new Error(`no Secret ${name}`)
    await provider.cluster.delete('Secret', key)
    await eventually('the condition', async () => (await condition('keyed', 'KeysAvailable'))?.reason === reason)
    await api.create({ name: 'later' }, {})
    await eventually('the same of a new one', async () => {
      return (await condition('later', 'KeysAvailable'))?.reason === reason
    })
    expect(await provider.cluster.get('Secret', key)).toBeUndefined()
    expect(await query(before, 'SELECT 1 AS one')).toEqual([{ one: 1 }])

    const { uid: _uid, resourceVersion: _version, creationTimestamp: _time, ...metadata } = secret.metadata
    await provider.cluster.create('Secret', { ...secret, metadata })
    await eventually('healed', async () => (await condition('later', 'Ready'))?.status === 'True')
    expect(await api.connection(database.id)).toEqual(before)
    expect(await query(before, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  })
})

describe('hands in the files of a stopped installation', () => {
  let home: Home
  beforeEach(async () => {
    home = await createHome()
  })
  afterEach(() => home.remove())

  /** Databases with a row that tells them apart, stopped; and the directories of their volumes. */
  async function prepared(names: string[]) {
    const running = await home.run()
    const client = createApiClient(running.api, running.token)
    const databases: Database[] = []
    const volumes: string[] = []
    const root = join(home.path, 'runtime/volumes')
    for (const name of names) {
      const { body } = await client.create({ name, ip_allowlist: openToThisMachine })
      await query(await client.connection(body.id), `CREATE TABLE whose AS SELECT '${name}' AS name`)
      databases.push(body)
      const all = (await readdir(root, { recursive: true })).filter(path => path.split('/').length === 2)
      volumes.push(...all.map(path => join(root, path)).filter(path => !volumes.includes(path)))
    }
    expect(volumes).toHaveLength(names.length)
    await home.stop()
    return { databases, volumes }
  }
  const again = async () => {
    const running = await home.run()
    return createApiClient(running.api, running.token)
  }
  const owner = async (client: ApiClient, { id }: Database) =>
    (await query(await client.connection(id), 'SELECT name FROM whose'))[0]?.name

  test('two volumes swapped: neither serves the other, and both do when they are swapped back', async () => {
    const { databases, volumes } = await prepared(['pear', 'quince'])
    const [pear = '', quince = ''] = volumes
    const swap = async () => {
      await rename(pear, `${pear}.aside`)
      await rename(quince, pear)
      await rename(`${pear}.aside`, quince)
    }
    await swap()
    let client = await again()
    for (const { id } of databases) {
      await eventually('failed', async () => (await client.read(id)).body.status === 'failed')
      expect(await sqlState(async () => connect(await client.connection(id)))).not.toBe('none')
    }
    await home.stop()
    await swap()
    client = await again()
    for (const database of databases) {
      await eventually('served again', async () => (await owner(client, database)) === database.name)
    }
  })

  test.each([
    ['the data directory is gone', (volume: string) => rm(join(volume, 'pgdata'), { recursive: true })],
    ['the data are of another version', (volume: string) => writeFile(join(volume, 'pgdata/PG_VERSION'), '15\n')],
    ['the identity is torn', (volume: string) => writeFile(join(volume, 'espalier-identity.json'), '{')],
    ['the identity is gone', (volume: string) => rm(join(volume, 'espalier-identity.json'))],
    [
      'the volume is emptied',
      async (volume: string) => {
        await rm(volume, { recursive: true })
        await mkdir(volume)
      },
    ],
  ])('%s: failed, and nothing is initialised in its place', async (_, damage) => {
    const { databases, volumes } = await prepared(['hurt'])
    const [volume = ''] = volumes
    await damage(volume)
    const client = await again()
    const id = databases[0]?.id ?? ''
    await eventually('failed', async () => (await client.read(id)).body.status === 'failed')
    expect(await readdir(volume)).not.toContainEqual(expect.stringMatching(/^pgdata\.new-/))
    expect(await sqlState(async () => connect(await client.connection(id)))).not.toBe('none')
  })

  test.each([
    ['postgresql.conf', "fsync = off\nlisten_addresses = '0.0.0.0'\n"],
    ['pg_hba.conf', 'host all all all trust\n'],
    ['postgresql.auto.conf', 'ssl = off\n'],
    ['postmaster.pid', `${process.pid}\n/elsewhere\n`],
  ])('%s written by hand changes nothing', async (file, content) => {
    const { databases, volumes } = await prepared(['hurt'])
    await writeFile(join(volumes[0] ?? '', 'pgdata', file), content)
    const client = await again()
    const [database] = databases
    if (database === undefined) throw new Error('no database')
    await eventually('served', async () => (await owner(client, database)) === 'hurt')
    const connection = await client.connection(database.id)
    expect(await sqlState(() => connect({ ...connection, password: 'wrong' }))).toBe('28P01')
    expect(await sqlState(() => connect(connection, { ssl: false }))).toBe('28000')
    expect(await query(connection, "SELECT current_setting('fsync') AS fsync")).toEqual([{ fsync: 'on' }])
  })
})
