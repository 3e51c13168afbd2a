/**
 * Both operator pods are killed at random moments of every operation. Each operation ends as without kills, and leaves
 * no objects. Several databases run operations at the same time, each at another stage, so that one kill tests several
 * operations. ESPALIER_SOAK_MOMENTS sets the number of kills; ESPALIER_SOAK_SEED repeats the random choices.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { type ApiClient, type Connection, connect, eventually, openTo, query, sqlState } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { createChance, seed } from './chance.ts'
import { killOperators } from './kills.ts'
import { type Backup, connectionOf, createBackup, createBranch, readBackup, succeeded } from './requests.ts'
import { minutes } from './serving.ts'
import { soakCount } from './soak-count.ts'
import { remainingOf } from './storage.ts'

const moments = soakCount('ESPALIER_SOAK_MOMENTS', 20)
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

/** The life cycle of one database. */
type Subject = { name: string; id: string; connection: Connection; backupId: string; branchId: string }

const tableOf = async (connection: Connection) =>
  (await query<{ n: number }>(connection, 'TABLE kept')).map(({ n }) => n)
const listed = async (id: string, purpose: string) =>
  (await api.call<Backup[]>('GET', `/backups?database_id=${id}`)).body.filter(backup => backup.purpose === purpose)
const statusOf = async (id: string) => (await api.read(id)).body.status
const allDeleted = (id: string) =>
  eventually(
    'every object of the database is deleted',
    async () => {
      const remaining = await remainingOf(provider, id)
      if (remaining.length > 0) throw new Error(remaining.join('\n'))
      return true
    },
    minutes(2),
  )

const operations: Record<string, (subject: Subject) => Promise<void>> = {
  create: async subject => {
    const requested = await api.create(
      { name: subject.name, pg_version: '17', ip_allowlist: openTo(provider.clientAddress) },
      {},
    )
    await succeeded(api, requested)
    subject.id = requested.body.id
    subject.connection = await api.connection(subject.id)
    await query(subject.connection, 'CREATE TABLE kept AS SELECT 1 AS n')
  },
  backup: async subject => {
    const requested = await createBackup(api, subject.id)
    await succeeded(api, requested)
    subject.backupId = requested.body.id
    expect((await readBackup(api, subject.backupId)).status).toBe('completed')
    expect((await remainingOf(provider, subject.id)).filter(line => line.startsWith('VolumeSnapshot '))).toHaveLength(1)
  },
  branch: async subject => {
    const requested = await createBranch(api, subject.id)
    await succeeded(api, requested)
    subject.branchId = requested.body.id
    expect(await tableOf(await connectionOf(api, subject.id, subject.branchId))).toEqual([1])
    // The source of the branch is deleted once the branch is independent.
    await eventually(
      'every prebranch backup is deleted',
      async () => (await listed(subject.id, 'prebranch')).length === 0,
    )
  },
  'delete of a branch': async subject => {
    await succeeded(api, await api.call('DELETE', `/databases/${subject.id}/branches/${subject.branchId}`))
    await allDeleted(subject.branchId)
  },
  restore: async subject => {
    await query(subject.connection, 'INSERT INTO kept VALUES (2)')
    const body = { backup_id: subject.backupId }
    await succeeded(api, await api.call('POST', `/databases/${subject.id}/restore`, body))
    expect(await statusOf(subject.id)).toBe('available')
    expect(await api.connection(subject.id)).toEqual(subject.connection)
    expect(await tableOf(subject.connection)).toEqual([1])
    const prerestores = await listed(subject.id, 'prerestore')
    expect(prerestores.map(({ status }) => status)).toEqual(['completed'])
    await eventually('the only postrestore backup is completed', async () => {
      const [after, ...more] = await listed(subject.id, 'postrestore')
      return after?.status === 'completed' && more.length === 0
    })
  },
  resize: async subject => {
    await succeeded(api, await api.call('POST', `/databases/${subject.id}/size`, { size: 'small' }))
    expect((await api.read(subject.id)).body).toMatchObject({ size: 'small', status: 'available' })
    expect(await tableOf(subject.connection)).toEqual([1])
    const claims = (await remainingOf(provider, subject.id)).filter(line => line.startsWith('PersistentVolumeClaim '))
    // The volume from before the restore is retained for a day.
    expect(claims).toHaveLength(2)
    const name = childNames.claim(subject.id, 2)
    const claim = await provider.cluster.get('PersistentVolumeClaim', { namespace, name })
    expect(claim?.status?.capacity?.storage).toBe('2Gi')
  },
  rotation: async subject => {
    const old = subject.connection
    await succeeded(api, await api.call('POST', `/databases/${subject.id}/roles/app/rotate-password`))
    subject.connection = await api.connection(subject.id)
    expect(subject.connection.password).not.toBe(old.password)
    expect(await tableOf(subject.connection)).toEqual([1])
    expect(await sqlState(async () => (await connect(old)).end())).toBe('28P01')
  },
  suspend: async subject => {
    await succeeded(api, await api.call('POST', `/databases/${subject.id}/suspend`))
    expect(await statusOf(subject.id)).toBe('suspended')
    expect((await remainingOf(provider, subject.id)).filter(line => line.startsWith('Pod '))).toEqual([])
  },
  resume: async subject => {
    await succeeded(api, await api.call('POST', `/databases/${subject.id}/resume`))
    expect(await statusOf(subject.id)).toBe('available')
    expect(await tableOf(subject.connection)).toEqual([1])
  },
  delete: async subject => {
    await succeeded(api, await api.remove(subject.id))
    expect((await api.read(subject.id)).status).toBe(404)
    await allDeleted(subject.id)
  },
}

const newSubject = (name: string): Subject => ({
  ...{ name, id: '', backupId: '', branchId: '' },
  connection: { username: '', password: '', host: '', port: 0, database: '' },
})

/** The duration of each operation without kills, in ms. */
async function usual(): Promise<Record<string, number>> {
  const subject = newSubject('spared')
  const took: Record<string, number> = {}
  for (const [name, operate] of Object.entries(operations)) {
    const began = performance.now()
    await operate(subject)
    took[name] = performance.now() - began
  }
  return took
}

test(
  `every operation ends as usual, with the operator killed at ${moments} moments of each`,
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
      const subjects = Array.from({ length: Math.min(atOnce, moments - done) }, (_, index) =>
        newSubject(`tossed${done + index}`),
      )
      for (const [name, operate] of Object.entries(operations)) {
        const lengthMs = usualMs[name] ?? 0
        const delays = subjects.map(() => chance.between(0, lengthMs))
        const kill = async () => {
          await sleep(lengthMs)
          await killOperators(provider)
        }
        const begun = subjects.map(async (subject, index) => {
          await sleep(delays[index])
          await operate(subject)
        })
        const results = await Promise.allSettled([...begun, kill()])
        const [wrong] = results.filter(({ status }) => status === 'rejected')
        if (wrong?.status === 'rejected') throw new Error(`during ${name}, begun at ${delays}`, { cause: wrong.reason })
        killed[name] = (killed[name] ?? 0) + subjects.length
      }
      console.log(JSON.stringify(killed))
    }
    for (const name of Object.keys(operations)) expect(killed[name]).toBe(moments)
  },
  minutes(240),
)
