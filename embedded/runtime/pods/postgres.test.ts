/** A Postgres as the operator runs it: every major version, its fast shutdown, and its leftovers after kill -9. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { descendantsOf, isAlive, readProcesses } from '../processes/table.ts'
import { connectPostgres, openPostgresCluster, postgresPod } from '../testing/postgres.ts'
import { claim, key, namespace, pod, ready, until, untilPod } from '../testing/runtime.ts'

test('every major version starts, answers, and shuts down fast while a client is connected', async () => {
  const { cluster, directory } = await openPostgresCluster()
  await Promise.all(
    ['16', '17', '18'].map(async major => {
      const name = `db-${major}`
      const { metadata } = await cluster.create('PersistentVolumeClaim', claim(name))
      await cluster.create('Pod', pod(name, postgresPod({ claimName: name, image: `espalier/postgres:${major}` })))
      const client = await connectPostgres((await untilPod(cluster, name, ready, 40_000)).status)
      const { rows } = await client.query('SHOW server_version_num')
      expect(rows[0].server_version_num).toMatch(new RegExp(`^${major}`))
      const begin = performance.now()
      await cluster.delete('Pod', key(name))
      await until(async () => (await cluster.get('Pod', key(name))) === undefined)
      expect(performance.now() - begin).toBeLessThan(10_000)
      // A clean shutdown leaves no lock file.
      const data = join(directory, 'volumes', namespace, metadata.uid ?? '', 'pgdata')
      expect(existsSync(join(data, 'postmaster.pid'))).toBe(false)
      await client.end().catch(() => {})
    }),
  )
})

test('after kill -9 of a postmaster, the runtime ends a backend that did not notice it, and the server restarts with its data', async () => {
  const { cluster, directory } = await openPostgresCluster()
  const { metadata } = await cluster.create('PersistentVolumeClaim', claim('db'))
  await cluster.create('Pod', pod('db', postgresPod({ claimName: 'db' })))
  const up = await untilPod(cluster, 'db', ready, 30_000)
  const client = await connectPostgres(up.status)
  await client.query('CREATE TABLE kept AS SELECT 42 AS n')
  const busy = client.query('DO $$ BEGIN LOOP END LOOP; END $$').catch(() => {})
  const data = join(directory, 'volumes', namespace, metadata.uid ?? '', 'pgdata')
  const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
  // The backend must be in its loop: only there, it does not check whether its parent runs.
  await until(() => descendantsOf(readProcesses(), [postmaster]).some(({ state }) => state === 'R'))
  const before = descendantsOf(readProcesses(), [postmaster])
  process.kill(postmaster, 'SIGKILL')
  const again = await untilPod(
    cluster,
    'db',
    found => found.status?.containerStatuses?.[0]?.restartCount === 1 && ready(found),
    10_000,
  )
  expect(before.length).toBeGreaterThan(4)
  expect(before.some(isAlive)).toBe(false)
  await busy
  const other = await connectPostgres(again.status)
  expect((await other.query('SELECT n FROM kept')).rows).toEqual([{ n: 42 }])
  await other.end()
})
