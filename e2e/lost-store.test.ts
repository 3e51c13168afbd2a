/** The store of an installation is lost: no empty installation takes its place, and the databases come back from their volumes. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect, createApiClient, type Database, eventually, openToThisMachine, query } from './client.ts'
import { createHome, type Home } from './process.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})
afterEach(() => home.remove())

test('a lost store is refused, and rescued with the data, names, sizes and allowlists of its databases', async () => {
  let running = await home.run()
  let api = createApiClient(running.api, running.token)
  const available = (id: string) =>
    eventually('available', async () => (await api.read(id)).body.status === 'available', 120_000)
  const { body: made } = await api.create({ name: 'orders', size: 'small', ip_allowlist: openToThisMachine })
  await available(made.id)
  const before = await api.connection(made.id)
  await query(before, 'CREATE TABLE kept AS SELECT 7 AS n')
  const { body: branch } = await api.call<{ id: string; name: string }>('POST', `/databases/${made.id}/branches`)
  const volumes = join(home.path, 'runtime', 'volumes')
  await eventually('the records', async () => {
    const files = await readdir(volumes, { recursive: true })
    return files.filter(name => /^[^/]+\/[^/]+\.json$/.test(name)).length === 2
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
    // The operator makes new credentials beside the first look at the database.
    const connection = await eventually('the connection', () => api.connection(id))
    expect(await query(connection, 'SELECT n FROM kept')).toEqual([{ n: 7 }])
    await query(connection, 'INSERT INTO kept VALUES (8)')
  }
  expect((await api.read(made.id)).body).toMatchObject({ name: 'orders', size: 'small' })
  const after = await api.connection(made.id)
  expect(after.password).not.toBe(before.password)
  await expect(connect({ ...after, password: before.password })).rejects.toThrow()
}, 240_000)
