/**
 * The store of an installation is lost. No empty installation replaces it, and the databases are restored from their
 * volumes.
 */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect, createApiClient, type Database, eventually, openToThisMachine, query } from './client.ts'
import { canMakePool, unmountPool } from './disk.ts'
import { createHome, type Home } from './process.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})
afterEach(async () => {
  await home.stop()
  unmountPool(home.path)
  await home.remove()
})

test('an installation refuses to start without its store, and a rescue restores the data, names, sizes and allowlists of its databases', async () => {
  let running = await home.run()
  let api = createApiClient(running.api, running.token)
  const available = (id: string) =>
    eventually('the database is available', async () => (await api.read(id)).body.status === 'available', 120_000)
  const { body: made } = await api.create({ name: 'orders', size: 'small', ip_allowlist: openToThisMachine })
  await available(made.id)
  const before = await api.connection(made.id)
  await query(before, 'CREATE TABLE kept AS SELECT 7 AS n')
  if (canMakePool) {
    // The database's volume stays outside the pool. The volume of its branch is in the pool.
    await home.stop()
    home.environment.ESPALIER_POOL = 'auto'
    running = await home.run()
    api = createApiClient(running.api, running.token)
    await available(made.id)
  }
  const { body: branch } = await api.call<{ id: string; name: string }>('POST', `/databases/${made.id}/branches`)
  const runtime = join(home.path, 'runtime')
  const directories = [join(runtime, 'volumes'), ...(canMakePool ? [join(runtime, 'pool', 'volumes')] : [])]
  await eventually('the record of each volume is written', async () => {
    const files = await Promise.all(directories.map(directory => readdir(directory, { recursive: true })))
    const records = files.map(names => names.filter(name => /^[^/]+\/[^/]+\.json$/.test(name)).length)
    return canMakePool ? records.every(count => count === 1) : records[0] === 2
  })

  await home.kill()
  await rm(join(home.path, 'store'), { recursive: true })
  const refused = /store is empty, while there are data of databases.*espalier rescue/
  await expect(home.run()).rejects.toThrow(refused)
  const rescued = await home.command(['rescue'])
  expect(rescued, rescued.stderr).toMatchObject({ code: 0 })
  expect(rescued.stdout).toContain(`RESCUED demo/orders ${made.id}\n`)
  expect(rescued.stdout).toContain(`${branch.id} (it was a branch)`)
  const again = await home.command(['rescue'])
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('there is nothing to rescue')])

  running = await home.run()
  api = createApiClient(running.api, running.token)
  const { body: list } = await api.call<Database[]>('GET', '/databases')
  expect(list.map(({ id }) => id).sort()).toEqual([made.id, branch.id].sort())
  for (const { id } of list) {
    await available(id)
    // The operator creates new credentials in parallel with the first reconciliation of the database.
    const connection = await eventually('the API returns the connection', () => api.connection(id))
    expect(await query(connection, 'SELECT n FROM kept')).toEqual([{ n: 7 }])
    await query(connection, 'INSERT INTO kept VALUES (8)')
  }
  expect((await api.read(made.id)).body).toMatchObject({ name: 'orders', size: 'small' })
  const after = await api.connection(made.id)
  expect(after.password).not.toBe(before.password)
  await expect(connect({ ...after, password: before.password })).rejects.toThrow()
}, 240_000)
