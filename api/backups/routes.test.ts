/** Backups through the API, on the one-machine store: what is asked for, refused, listed and let go. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  annotatedOperation,
  annotations,
  type Backup,
  labels,
  teardownFinalizer,
  tenantNamespace,
} from '../../crds/index.ts'
import {
  type Client,
  createSettled,
  expectError,
  setSnapshotClass,
  startClient,
  storedDatabase,
  until,
} from '../testing/client.ts'
import { settle } from '../testing/harness.ts'
import { highestUserBackups } from './decide.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
  await snapshotClass({ name: 'fast', atomic: true })
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const snapshotClass = (given: { name: string; atomic: boolean } | undefined) => setSnapshotClass(client, given)
const ask = (id: string, headers: Record<string, string> = {}, kind = 'hot') =>
  client.call('POST', `/databases/${id}/backup`, { body: { kind }, headers })
const stored = async (id: string): Promise<Backup> => {
  const { items } = await client.cluster.list('Backup', { namespace, labels: { [labels.id]: id } })
  const [backup] = items
  if (backup === undefined) throw new Error('it is not stored')
  return backup
}
/** What the operator says once it has taken it. */
const complete = async (id: string) => {
  const backup = await stored(id)
  const status = {
    phase: 'completed' as const,
    finishedAt: '2026-01-02T03:04:05Z',
    cutAt: '2026-01-02T03:04:04Z',
    startLsn: '0/2000028',
    endLsn: '0/2000100',
    timeline: 1,
    systemIdentifier: '7000000000000000001',
    sizeBytes: 1024,
  }
  await client.cluster.replaceStatus('Backup', { ...backup, status })
  await until(async () => (await client.call('GET', `/backups/${id}`)).body.status === 'completed')
}

describe('asking for a backup', () => {
  test('is 202 with a pending one, which can be listed at once, and its task', async () => {
    const id = await createSettled(client, 'kept')
    const asked = await ask(id)
    expect(asked).toMatchObject({
      status: 202,
      body: { database_id: id, status: 'pending', kind: 'hot', purpose: 'user', metadata: {} },
    })
    expect(asked.body.name).toMatch(/^kept-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$/)
    const taskId = asked.headers['x-task-id']
    expect(asked.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
    expect((await client.call('GET', `/backups?database_id=${id}`)).body).toEqual([asked.body])
    expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
      name: 'backup-managed',
      subject_kind: 'backup',
      subject_id: asked.body.id,
      request: { kind: 'hot' },
    })
    const backup = await stored(asked.body.id)
    expect(backup.spec).toEqual({ databaseName: 'kept', databaseId: id, kind: 'hot', purpose: 'user' })
    expect(backup.metadata.finalizers).toEqual([teardownFinalizer])
    expect(annotatedOperation(backup)?.taskId).toBe(taskId)
    expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('available')

    await complete(asked.body.id)
    expect((await client.call('GET', `/backups/${asked.body.id}`)).body).toMatchObject({
      status: 'completed',
      finished_at: expect.stringMatching(/^2026-01-02T03:04:05/),
      metadata: {
        size_bytes: 1024,
        cut_at: expect.stringMatching(/^2026-01-02T03:04:04/),
        start_lsn: '0/2000028',
        end_lsn: '0/2000100',
        timeline: 1,
        system_identifier: '7000000000000000001',
      },
    })
  })

  test('waits for its end where the request prefers to', async () => {
    const id = await createSettled(client, 'patient')
    const asking = ask(id, { prefer: 'wait=10' })
    await until(async () => (await client.call('GET', `/backups?database_id=${id}`)).body.length === 1)
    const [{ id: backupId }] = (await client.call('GET', `/backups?database_id=${id}`)).body
    await complete(backupId)
    expect(await asking).toMatchObject({ status: 202, body: { status: 'completed' } })
  })

  test('twice with one Idempotency-Key makes one', async () => {
    const id = await createSettled(client, 'once')
    const headers = { 'idempotency-key': 'backup-1' }
    const [first, second] = [await ask(id, headers), await ask(id, headers)]
    expect(second).toMatchObject({ status: 202, body: first.body })
    expect((await client.call('GET', `/backups?database_id=${id}`)).body).toHaveLength(1)
  })

  test('goes on beside a change of a database that serves', async () => {
    const id = await createSettled(client, 'changing')
    const ready = {
      type: 'Ready',
      status: 'True' as const,
      reason: 'Serving',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    }
    await settle(client.cluster, 'acme', 'changing', { phase: 'modifying', conditions: [ready] })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'modifying')
    expect((await ask(id)).status).toBe(202)
  })
})

describe('is refused', () => {
  test.each<[string, RegExp]>([
    ['creating', /the database is creating/],
    ['failed', /the database is failed/],
    ['degraded', /the database is degraded/],
    ['suspended', /the database is suspended: resume it/],
  ])('with 409 of a database that is %s', async (phase, message) => {
    const id = await createSettled(client, `is${phase}`)
    await settle(client.cluster, 'acme', `is${phase}`, { phase: phase as 'failed' })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === phase)
    const answer = await ask(id)
    expectError(answer, 409, message)
    // Only where waiting helps.
    const waits = phase === 'creating' || phase === 'degraded'
    expect(answer.headers['retry-after']).toBe(waits ? '2' : undefined)
  })

  test('with 409 of a database whose suspension the cache of this replica does not know yet', async () => {
    const id = await createSettled(client, 'unseen')
    const { promise, resolve } = Promise.withResolvers<void>()
    client.cluster.silence = promise
    try {
      const database = await storedDatabase(client, 'unseen')
      await client.cluster.replace('ManagedDatabase', { ...database, spec: { ...database.spec, suspended: true } })
      expectError(await ask(id), 409, /the database is suspending: resume it/)
    } finally {
      client.cluster.silence = undefined
      resolve()
    }
  })

  test('with 409, and is gone, where the database is suspended while the backup is written', async () => {
    const id = await createSettled(client, 'between')
    client.cluster.before = async (operation, kind) => {
      if (operation !== 'create' || kind !== 'Backup') return
      client.cluster.before = undefined
      const database = await storedDatabase(client, 'between')
      await client.cluster.replace('ManagedDatabase', { ...database, spec: { ...database.spec, suspended: true } })
    }
    expectError(await ask(id), 409, /the database is being suspended: resume it/)
    const { items } = await client.cluster.list('Backup', { namespace })
    const made = items.filter(({ spec }) => spec.databaseId === id)
    expect(made.filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toEqual([])
  })

  test('with 400 where it is durable, or snapshots are not of one instant', async () => {
    const id = await createSettled(client, 'durable')
    expectError(await ask(id, {}, 'durable'), 400, /the durable tier is not enabled/)
    const database = await storedDatabase(client, 'durable')
    await client.cluster.replace('ManagedDatabase', {
      ...database,
      spec: { ...database.spec, backup: { durable: true } },
    })
    await until(async () => /not available/.test((await ask(id, {}, 'durable')).body.message))
    await snapshotClass({ name: 'slow', atomic: false })
    await until(async () => (await ask(id)).status === 400)
    expectError(await ask(id), 400, /^kind: snapshots of class slow are not declared to be of one instant/)
    await snapshotClass({ name: 'fast', atomic: true })
    await until(async () => (await ask(id)).status === 202)
  })

  test('with 409 where the database has as many as are kept', async () => {
    const id = await createSettled(client, 'full')
    for (let index = 0; index < highestUserBackups; index++)
      await client.cluster.create('Backup', {
        apiVersion: 'espalier.dev/v1alpha1',
        kind: 'Backup',
        metadata: { name: `full-${index}`, namespace, labels: { [labels.id]: crypto.randomUUID() } },
        spec: { databaseName: 'full', databaseId: id, kind: 'hot', purpose: 'user' },
      })
    await until(async () => (await client.call('GET', `/backups?database_id=${id}`)).body.length === highestUserBackups)
    expectError(await ask(id), 409, /delete one first/)
  })
})

describe('deleting a backup', () => {
  test('is 204, is seen until its snapshot is gone, and concerns no other tenant', async () => {
    const id = await createSettled(client, 'cleared')
    const { body } = await ask(id)
    expectError(await client.call('DELETE', `/backups/${body.id}`, { claims: { tenant: 'other' } }), 404)
    expect((await client.call('DELETE', `/backups/${body.id}`)).status).toBe(204)
    await until(async () => (await client.call('GET', `/backups/${body.id}`)).body.status === 'deleting')
    expect((await client.call('DELETE', `/backups/${body.id}`)).status).toBe(204)
    const backup = await stored(body.id)
    await client.cluster.replace('Backup', { ...backup, metadata: { ...backup.metadata, finalizers: [] } })
    await until(async () => (await client.call('GET', `/backups/${body.id}`)).status === 404)
    expectError(await client.call('DELETE', `/backups/${body.id}`), 404, 'backup not found')
  })
})

describe('verifying a backup', () => {
  const ofOperator = async (id: string, change: Partial<NonNullable<Backup['status']>>) => {
    const backup = await stored(id)
    await client.cluster.replaceStatus('Backup', { ...backup, status: { ...backup.status, ...change } })
  }
  const verify = (id: string, headers: Record<string, string> = {}) =>
    client.call('POST', `/backups/${id}/verify`, { headers })
  const metadataOf = async (id: string) => (await client.call('GET', `/backups/${id}`)).body.metadata

  test('is asked for by a mark, and pending from then on; what it came to is told', async () => {
    const { body } = await ask(await createSettled(client, 'verified'))
    expectError(await verify(body.id), 409, /the backup is pending: one that is completed can be verified/)
    await complete(body.id)
    expect((await metadataOf(body.id)).verification).toBeUndefined()
    const answer = await verify(body.id)
    expect(answer).toMatchObject({ status: 202, body: { id: body.id, metadata: { verification: 'pending' } } })
    expect(await metadataOf(body.id)).toEqual(answer.body.metadata)
    expectError(await verify(body.id), 409, /the backup is being verified already/)
    const asked = (await stored(body.id)).metadata.annotations?.[annotations.verify]
    expect(asked).toMatch(/^2/)
    const waiting = verify(body.id, { prefer: 'wait=10' })
    expect((await waiting).status).toBe(409)
    const result = { endedAt: '2026-01-02T03:04:05Z', version: '18.4', pages: 7, faults: 1, error: '1 found: x' }
    await ofOperator(body.id, { verification: 'failed', verificationResult: { ...result, asked } })
    await until(async () => (await metadataOf(body.id)).verification === 'failed')
    const { endedAt: ended_at, ...counts } = result
    expect((await metadataOf(body.id)).verification_result).toEqual({ ...counts, ended_at: '2026-01-02T03:04:05.000Z' })
    expect(await verify(body.id)).toMatchObject({ status: 202, body: { metadata: { verification: 'pending' } } })
  })

  test('waits for its end where that is preferred', async () => {
    const { body } = await ask(await createSettled(client, 'awaited'))
    await complete(body.id)
    const answer = verify(body.id, { prefer: 'wait=10' })
    await until(async () => (await metadataOf(body.id)).verification === 'pending')
    const asked = (await stored(body.id)).metadata.annotations?.[annotations.verify]
    const verificationResult = { endedAt: '2026-01-02T03:04:05Z', asked }
    await ofOperator(body.id, { verification: 'verified', verificationResult })
    expect(await answer).toMatchObject({ status: 202, body: { metadata: { verification: 'verified' } } })
  })

  test('is refused of one that is none, of one that failed, and with a body', async () => {
    expectError(await verify(crypto.randomUUID()), 404, /backup/)
    const { body } = await ask(await createSettled(client, 'unverified'))
    expectError(await client.call('POST', `/backups/${body.id}/verify`, { body: { deep: true } }), 400, /deep/)
    await ofOperator(body.id, { phase: 'failed', finishedAt: '2026-01-02T03:04:05Z' })
    expectError(await verify(body.id), 409, /the backup failed: there is nothing to verify/)
  })
})
