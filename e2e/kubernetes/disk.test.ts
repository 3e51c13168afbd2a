/**
 * A hanging disk: only a kubelet's probe and a separate file system can simulate it. It is reported within a minute and
 * causes no restart, and running operations continue when the disk does.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { eventually, query } from '../client.ts'
import { minutes, type Serving, startServing } from './serving.ts'

let it: Serving

beforeAll(async () => {
  it = await startServing('disk', 'disk')
}, minutes(4))
afterAll(() => it?.stop(), minutes(3))

const runOf = async () => {
  const pod = await it.provider.cluster.get('Pod', { namespace: it.namespace, name: childNames.pod(it.database.id, 1) })
  const restarts = pod?.status?.containerStatuses?.map(({ name, restartCount }) => `${name} ${restartCount}`)
  return { uid: pod?.metadata.uid, restarts }
}
const volumeReason = async () => {
  const resource = await it.provider.cluster.get('ManagedDatabase', { namespace: it.namespace, name: 'disk' })
  return resource?.status?.conditions?.find(({ type }) => type === 'VolumeReady')?.reason
}

test(
  'a hanging disk is reported within a minute, and ends no session',
  async () => {
    const connection = await it.api.connection(it.database.id)
    await query(connection, 'CREATE TABLE kept AS SELECT 42 AS n')
    const before = await runOf()
    const unfreeze = await it.provider.freezeVolume(it.namespace, it.database.id)
    const began = Date.now()
    const under = query(connection, 'INSERT INTO kept VALUES (43)')
    under.catch(() => {}) // awaited below
    try {
      await eventually(
        'the volume reports the reason WriteHangs',
        async () => (await volumeReason()) === 'WriteHangs',
        minutes(2),
      )
      expect(Date.now() - began).toBeLessThan(minutes(1))
      expect((await it.api.read(it.database.id)).body.status).toBe('degraded')
    } finally {
      await unfreeze()
    }
    await under
    await eventually(
      'the database is available',
      async () => (await it.api.read(it.database.id)).body.status === 'available',
      minutes(2),
    )
    expect(await query(connection, 'SELECT count(*)::int AS n FROM kept')).toEqual([{ n: 2 }])
    expect(await runOf()).toEqual(before)
  },
  minutes(6),
)
