/**
 * An installation with a completely full disk: it reports this, can delete databases, and starts again after a kill.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createApiClient, eventually, openToThisMachine } from './client.ts'
import { canMakePool, canMount, fillDisk, mountImage, unmountPool } from './disk.ts'
import { createHome, type Home } from './process.ts'

const disks = [
  { copies: 'whole copies', megabytes: 700, pool: 'off', canRun: canMount },
  { copies: 'a pool', megabytes: 1_700, pool: 'auto', canRun: canMakePool && process.env.ESPALIER_SOAK !== undefined },
].filter(({ canRun }) => canRun)

describe.each(disks)('with $copies, a completely full disk', { timeout: 240_000 }, ({ megabytes, pool }) => {
  let home: Home
  let unmount = () => {}
  beforeEach(async () => {
    home = await createHome()
    unmount = mountImage(megabytes, home.path)
    home.environment.ESPALIER_POOL = pool
  })
  afterEach(async () => {
    await home.stop()
    unmountPool(home.path)
    unmount()
    await home.remove()
  })

  test('is reported at once; databases can be deleted, and a killed or stopped installation starts', async () => {
    let running = await home.run()
    let api = createApiClient(running.api, running.token)
    const isAvailable = async (id: string) => (await api.read(id)).body.status === 'available'
    const make = async (name: string) => {
      const { body } = await api.create({ name, ip_allowlist: openToThisMachine })
      await eventually('the database is available', () => isAvailable(body.id))
      return body.id
    }
    const readiness = async () => {
      const answer = await fetch(`${running.api}/readyz`)
      return { status: answer.status, text: await answer.text() }
    }
    const full = { status: 503, text: expect.stringContaining(`the disk of ${home.path} is full`) }
    expect(existsSync(join(home.path, 'runtime', 'pool.xfs'))).toBe(pool === 'auto')
    const [kept, first, second] = [await make('kept'), await make('first'), await make('second')]
    expect(await readiness()).toMatchObject({ status: 200 })

    let empty = await fillDisk(home.path)
    await eventually('the readiness check returns 503', async () => (await readiness()).status === 503, 5_000)
    expect(await readiness()).toEqual(full)
    for (const id of [kept, first, second])
      await eventually('the database is not available', async () => !(await isAvailable(id)), 20_000)
    const refused = await api.create({ name: 'another' })
    expect([refused.status, refused.body]).toMatchObject([503, { message: expect.stringContaining('is full: delete') }])
    const deleted = (id: string) =>
      eventually('the database is deleted', async () => (await api.read(id)).status === 404)
    expect((await api.remove(first)).status).toBeLessThan(300)
    await deleted(first)

    await home.kill()
    await empty()
    empty = await fillDisk(home.path)
    running = await home.run()
    api = createApiClient(running.api, running.token)
    expect(await readiness()).toEqual(full)
    expect((await api.remove(second)).status).toBeLessThan(300)
    await deleted(second)

    await empty()
    empty = await fillDisk(home.path)
    await home.stop()
    expect(running.process.exitCode).toBe(0)
    // Postgres frees some disk space when it stops, sometimes more than the threshold for a full disk.
    await empty()
    empty = await fillDisk(home.path)
    running = await home.run()
    api = createApiClient(running.api, running.token)
    // A start can also free some space.
    await empty()
    empty = await fillDisk(home.path)
    await eventually('the readiness check returns 503', async () => (await readiness()).status === 503, 5_000)
    expect(await readiness()).toEqual(full)

    await empty()
    await eventually('the readiness check returns 200', async () => (await readiness()).status === 200)
    await eventually('the remaining database is available', () => isAvailable(kept))
    await make('another')
  })
})
