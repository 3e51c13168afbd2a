/**
 * A disk that hangs, as only a kubelet's probe and a file system of its own can show it: it is said within a minute,
 * nothing is restarted for it, and what was under way goes on when the disk does.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { type ApiClient, type Database, eventually, openTo, query } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'

let provider: KindProvider
let api: ApiClient
let namespace: string
let database: Database

const minutes = (count: number) => count * 60_000

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('disk')
  namespace = provider.namespace('disk')
  const rules = openTo(provider.clientAddress)
  database = (await api.create({ name: 'disk', pg_version: '17', ip_allowlist: rules })).body
  expect(database.status).toBe('available')
}, minutes(4))
afterAll(async () => {
  if (database !== undefined) await api.remove(database.id)
  await provider?.stop()
}, minutes(3))

const runOf = async () => {
  const pod = await provider.cluster.get('Pod', { namespace, name: childNames.pod(database.id, 1) })
  const restarts = pod?.status?.containerStatuses?.map(({ name, restartCount }) => `${name} ${restartCount}`)
  return { uid: pod?.metadata.uid, restarts }
}
const volumeReason = async () => {
  const resource = await provider.cluster.get('ManagedDatabase', { namespace, name: 'disk' })
  return resource?.status?.conditions?.find(({ type }) => type === 'VolumeReady')?.reason
}

test(
  'a disk that hangs is told within a minute, and ends nothing',
  async () => {
    const connection = await api.connection(database.id)
    await query(connection, 'CREATE TABLE kept AS SELECT 42 AS n')
    const before = await runOf()
    const thaw = await provider.freezeVolume(namespace, database.id)
    const began = Date.now()
    const under = query(connection, 'INSERT INTO kept VALUES (43)')
    under.catch(() => {}) // waited for below
    try {
      await eventually('the hang is told', async () => (await volumeReason()) === 'WriteHangs', minutes(2))
      expect(Date.now() - began).toBeLessThan(minutes(1))
      expect((await api.read(database.id)).body.status).toBe('degraded')
    } finally {
      await thaw()
    }
    await under
    await eventually('available', async () => (await api.read(database.id)).body.status === 'available', minutes(2))
    expect(await query(connection, 'SELECT count(*)::int AS n FROM kept')).toEqual([{ n: 2 }])
    expect(await runOf()).toEqual(before)
  },
  minutes(6),
)
