/**
 * The operator is killed at random moments of every operation, both of its pods at once: each ends as if it had not been, and nothing
 * of it is left. Several databases are at it at the same time, each at a moment of its own, so that a kill is worth several.
 * ESPALIER_SOAK_MOMENTS says how many of each; what chance decided is had again by ESPALIER_SOAK_SEED.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { childNames } from '../../crds/index.ts'
import { type ApiClient, type Connection, connect, eventually, openTo, query, sqlState } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { askBackup, askBranch, type Backup, connectionOf, readBackup, succeeded } from './asking.ts'
import { createChance, seed } from './chance.ts'
import { killOperators } from './kills.ts'
import { minutes } from './serving.ts'
import { leftOf } from './storage.ts'

const moments = z.coerce
  .number('ESPALIER_SOAK_MOMENTS must be a number')
  .int()
  .min(1)
  .default(20)
  .parse(process.env.ESPALIER_SOAK_MOMENTS || undefined)
const atOnce = 5

const tenant = 'killed'
let provider: KindProvider
let api: ApiClient
let namespace: string
beforeAll(async () => {
  provider = await startKind()
  api = await provider.client(tenant)
  namespace = provider.namespace(tenant)
})
afterAll(() => provider?.stop())

/** One database through its life. */
type Life = { name: string; id: string; connection: Connection; backupId: string; branchId: string }

const tableOf = async (connection: Connection) =>
  (await query<{ n: number }>(connection, 'TABLE kept')).map(({ n }) => n)
const listed = async (id: string, purpose: string) =>
  (await api.call<Backup[]>('GET', `/backups?database_id=${id}`)).body.filter(backup => backup.purpose === purpose)
const statusOf = async (id: string) => (await api.read(id)).body.status
const noneLeft = (id: string) =>
  eventually(
    'nothing left',
    async () => {
      const left = await leftOf(provider, id)
      if (left.length > 0) throw new Error(left.join('\n'))
      return true
    },
    minutes(2),
  )

const operations: Record<string, (life: Life) => Promise<void>> = {
  create: async life => {
    const asked = await api.create(
      { name: life.name, pg_version: '17', ip_allowlist: openTo(provider.clientAddress) },
      {},
    )
    await succeeded(api, asked)
    life.id = asked.body.id
    life.connection = await api.connection(life.id)
    await query(life.connection, 'CREATE TABLE kept AS SELECT 1 AS n')
  },
  backup: async life => {
    const asked = await askBackup(api, life.id)
    await succeeded(api, asked)
    life.backupId = asked.body.id
    expect((await readBackup(api, life.backupId)).status).toBe('completed')
    expect((await leftOf(provider, life.id)).filter(line => line.startsWith('VolumeSnapshot '))).toHaveLength(1)
  },
  branch: async life => {
    const asked = await askBranch(api, life.id)
    await succeeded(api, asked)
    life.branchId = asked.body.id
    expect(await tableOf(await connectionOf(api, life.id, life.branchId))).toEqual([1])
    // What it was copied from goes once it stands by itself.
    await eventually('no prebranch left', async () => (await listed(life.id, 'prebranch')).length === 0)
  },
  'delete of a branch': async life => {
    await succeeded(api, await api.call('DELETE', `/databases/${life.id}/branches/${life.branchId}`))
    await noneLeft(life.branchId)
  },
  restore: async life => {
    await query(life.connection, 'INSERT INTO kept VALUES (2)')
    const body = { backup_id: life.backupId }
    await succeeded(api, await api.call('POST', `/databases/${life.id}/restore`, body))
    expect(await statusOf(life.id)).toBe('available')
    expect(await api.connection(life.id)).toEqual(life.connection)
    expect(await tableOf(life.connection)).toEqual([1])
    const anchors = await listed(life.id, 'prerestore')
    expect(anchors.map(({ status }) => status)).toEqual(['completed'])
    await eventually('the backup after it', async () => {
      const [after, ...more] = await listed(life.id, 'postrestore')
      return after?.status === 'completed' && more.length === 0
    })
  },
  resize: async life => {
    await succeeded(api, await api.call('POST', `/databases/${life.id}/size`, { size: 'small' }))
    expect((await api.read(life.id)).body).toMatchObject({ size: 'small', status: 'available' })
    expect(await tableOf(life.connection)).toEqual([1])
    const claims = (await leftOf(provider, life.id)).filter(line => line.startsWith('PersistentVolumeClaim '))
    // The one before the restore is kept for a day.
    expect(claims).toHaveLength(2)
    const name = childNames.claim(life.id, 2)
    const claim = await provider.cluster.get('PersistentVolumeClaim', { namespace, name })
    expect(claim?.status?.capacity?.storage).toBe('2Gi')
  },
  rotation: async life => {
    const old = life.connection
    await succeeded(api, await api.call('POST', `/databases/${life.id}/roles/app/rotate-password`))
    life.connection = await api.connection(life.id)
    expect(life.connection.password).not.toBe(old.password)
    expect(await tableOf(life.connection)).toEqual([1])
    expect(await sqlState(async () => (await connect(old)).end())).toBe('28P01')
  },
  suspend: async life => {
    await succeeded(api, await api.call('POST', `/databases/${life.id}/suspend`))
    expect(await statusOf(life.id)).toBe('suspended')
    expect((await leftOf(provider, life.id)).filter(line => line.startsWith('Pod '))).toEqual([])
  },
  resume: async life => {
    await succeeded(api, await api.call('POST', `/databases/${life.id}/resume`))
    expect(await statusOf(life.id)).toBe('available')
    expect(await tableOf(life.connection)).toEqual([1])
  },
  delete: async life => {
    await succeeded(api, await api.remove(life.id))
    expect((await api.read(life.id)).status).toBe(404)
    await noneLeft(life.id)
  },
}

const born = (name: string): Life => ({
  ...{ name, id: '', backupId: '', branchId: '' },
  connection: { username: '', password: '', host: '', port: 0, database: '' },
})

/** How long each takes where nobody is killed, in ms. */
async function usual(): Promise<Record<string, number>> {
  const life = born('spared')
  const took: Record<string, number> = {}
  for (const [name, operate] of Object.entries(operations)) {
    const began = performance.now()
    await operate(life)
    took[name] = performance.now() - began
  }
  return took
}

test(
  `every operation ends as ever, with the operator killed at ${moments} moments of each`,
  async () => {
    console.log(`ESPALIER_SOAK_SEED=${seed}`)
    const usualMs = await usual()
    console.log(
      'undisturbed, in ms:',
      JSON.stringify(usualMs, (_, value) => (typeof value === 'number' ? Math.round(value) : value)),
    )
    const chance = createChance('moments')
    const killed: Record<string, number> = {}
    for (let done = 0; done < moments; done += atOnce) {
      const lives = Array.from({ length: Math.min(atOnce, moments - done) }, (_, lane) => born(`tossed${done + lane}`))
      for (const [name, operate] of Object.entries(operations)) {
        const lengthMs = usualMs[name] ?? 0
        const delays = lives.map(() => chance.between(0, lengthMs))
        const kill = async () => {
          await sleep(lengthMs)
          await killOperators(provider)
        }
        const begun = lives.map(async (life, lane) => {
          await sleep(delays[lane])
          await operate(life)
        })
        const results = await Promise.allSettled([...begun, kill()])
        const [wrong] = results.filter(({ status }) => status === 'rejected')
        if (wrong?.status === 'rejected') throw new Error(`during ${name}, begun at ${delays}`, { cause: wrong.reason })
        killed[name] = (killed[name] ?? 0) + lives.length
      }
      console.log(JSON.stringify(killed))
    }
    for (const name of Object.keys(operations)) expect(killed[name]).toBe(moments)
  },
  minutes(240),
)
