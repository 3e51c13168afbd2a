/** Backups through the API, on the in-process store: request, refusal, list and deletion. */
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
  createStable,
  expectError,
  setSnapshotClass,
  startClient,
  storedDatabase,
  until,
} from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'
import { highestUserBackups } from './decide.ts'

let client: Client
beforeAll(async () => {
  client = await startClient()
  await snapshotClass({ name: 'fast', atomic: true })
})
afterAll(() => client.close())

const namespace = tenantNamespace('acme')
const snapshotClass = (storageClass: { name: string; atomic: boolean } | undefined) =>
  setSnapshotClass(client, storageClass)
const createBackup = (id: string, headers: Record<string, string> = {}, kind = 'hot') =>
  client.call('POST', `/databases/${id}/backup`, { body: { kind }, headers })
const stored = async (id: string): Promise<Backup> => {
  const { items } = await client.cluster.list('Backup', { namespace, labels: { [labels.id]: id } })
  const [backup] = items
  if (backup === undefined) throw new Error('the object is not stored')
  return backup
}
/** The status that the operator writes after the backup. */
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

describe('requesting a backup', () => {
  test('returns 202 with a pending backup, which is listed immediately, and its task', async () => {
    const id = await createStable(client, 'kept')
    const requested = await createBackup(id)
    expect(requested).toMatchObject({
      status: 202,
      body: { database_id: id, status: 'pending', kind: 'hot', purpose: 'user', metadata: {} },
    })
    expect(requested.body.name).toMatch(/^kept-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$/)
    const taskId = requested.headers['x-task-id']
    expect(requested.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
    expect((await client.call('GET', `/backups?database_id=${id}`)).body).toEqual([requested.body])
    expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
      name: 'backup-managed',
      subject_kind: 'backup',
      subject_id: requested.body.id,
      request: { kind: 'hot' },
    })
    const backup = await stored(requested.body.id)
    expect(backup.spec).toEqual({ databaseName: 'kept', databaseId: id, kind: 'hot', purpose: 'user' })
    expect(backup.metadata.finalizers).toEqual([teardownFinalizer])
    expect(annotatedOperation(backup)?.taskId).toBe(taskId)
    expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('available')

    await complete(requested.body.id)
    expect((await client.call('GET', `/backups/${requested.body.id}`)).body).toMatchObject({
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

  test('waits for the end of the backup if the request prefers to wait', async () => {
    const id = await createStable(client, 'patient')
    const pending = createBackup(id, { prefer: 'wait=10' })
    await until(async () => (await client.call('GET', `/backups?database_id=${id}`)).body.length === 1)
    const [{ id: backupId }] = (await client.call('GET', `/backups?database_id=${id}`)).body
    await complete(backupId)
    expect(await pending).toMatchObject({ status: 202, body: { status: 'completed' } })
  })

  test('two requests with one Idempotency-Key create one backup', async () => {
    const id = await createStable(client, 'once')
    const headers = { 'idempotency-key': 'backup-1' }
    const [first, second] = [await createBackup(id, headers), await createBackup(id, headers)]
    expect(second).toMatchObject({ status: 202, body: first.body })
    expect((await client.call('GET', `/backups?database_id=${id}`)).body).toHaveLength(1)
  })

  test('succeeds during a change of a database that serves', async () => {
    const id = await createStable(client, 'changing')
    const ready = {
      type: 'Ready',
      status: 'True' as const,
      reason: 'Serving',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    }
    await reconcile(client.cluster, 'acme', 'changing', { phase: 'modifying', conditions: [ready] })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'modifying')
    expect((await createBackup(id)).status).toBe(202)
  })
})

describe('is refused', () => {
  test.each<[string, RegExp]>([
    ['creating', /the database is creating/],
    ['failed', /the database is failed/],
    ['degraded', /the database is degraded/],
    ['suspended', /the database is suspended: resume it/],
  ])('with 409 for a database that is %s', async (phase, message) => {
    const id = await createStable(client, `is${phase}`)
    await reconcile(client.cluster, 'acme', `is${phase}`, { phase: phase as 'failed' })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === phase)
    const answer = await createBackup(id)
    expectError(answer, 409, message)
    // Retry-After is present only if waiting helps.
    const waits = phase === 'creating' || phase === 'degraded'
    expect(answer.headers['retry-after']).toBe(waits ? '2' : undefined)
  })

  test("with 409 for a database whose suspension is not yet in this replica's cache", async () => {
    const id = await createStable(client, 'unseen')
    const { promise, resolve } = Promise.withResolvers<void>()
    client.cluster.silence = promise
    try {
      const database = await storedDatabase(client, 'unseen')
      await client.cluster.replace('ManagedDatabase', { ...database, spec: { ...database.spec, suspended: true } })
      expectError(await createBackup(id), 409, /the database is suspending: resume it/)
    } finally {
      client.cluster.silence = undefined
      resolve()
    }
  })

  test('with 409, and deleted, if the database is suspended while the backup is written', async () => {
    const id = await createStable(client, 'between')
    client.cluster.before = async (operation, kind) => {
      if (operation !== 'create' || kind !== 'Backup') return
      client.cluster.before = undefined
      const database = await storedDatabase(client, 'between')
      await client.cluster.replace('ManagedDatabase', { ...database, spec: { ...database.spec, suspended: true } })
    }
    expectError(await createBackup(id), 409, /the database is being suspended: resume it/)
    const { items } = await client.cluster.list('Backup', { namespace })
    const made = items.filter(({ spec }) => spec.databaseId === id)
    expect(made.filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toEqual([])
  })

  test('with 400 if it is durable, or snapshots are not atomic across volumes', async () => {
    const id = await createStable(client, 'durable')
    expectError(await createBackup(id, {}, 'durable'), 400, /the durable tier is not enabled/)
    const database = await storedDatabase(client, 'durable')
    await client.cluster.replace('ManagedDatabase', {
      ...database,
      spec: { ...database.spec, backup: { durable: true } },
    })
    const archiving = async (reason: string, status: 'True' | 'False') => {
      const found = await storedDatabase(client, 'durable')
      const others = found.status?.conditions?.filter(({ type }) => type !== 'Archiving') ?? []
      const condition = { type: 'Archiving', status, reason, message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }
      const conditions = [...others, condition]
      await client.cluster.replaceStatus('ManagedDatabase', { ...found, status: { ...found.status, conditions } })
    }
    await archiving('NoArchive', 'False')
    expectError(await createBackup(id, {}, 'durable'), 400, /has no archive/)
    await archiving('RestartPending', 'False')
    expectError(await createBackup(id, {}, 'durable'), 409, /restart it/)
    await archiving('Archiving', 'True')
    const taken = await createBackup(id, {}, 'durable')
    expect(taken).toMatchObject({ status: 202, body: { kind: 'durable', status: 'pending', purpose: 'user' } })
    await snapshotClass({ name: 'slow', atomic: false })
    await until(async () => (await createBackup(id)).status === 400)
    expectError(await createBackup(id), 400, /^kind: snapshots of class slow are not declared to be of one instant/)
    await snapshotClass({ name: 'fast', atomic: true })
    await until(async () => (await createBackup(id)).status === 202)
  })

  test('with 409 if the database has the maximum number of backups', async () => {
    const id = await createStable(client, 'full')
    for (let index = 0; index < highestUserBackups; index++)
      await client.cluster.create('Backup', {
        apiVersion: 'espalier.dev/v1alpha1',
        kind: 'Backup',
        metadata: { name: `full-${index}`, namespace, labels: { [labels.id]: crypto.randomUUID() } },
        spec: { databaseName: 'full', databaseId: id, kind: 'hot', purpose: 'user' },
      })
    await until(async () => (await client.call('GET', `/backups?database_id=${id}`)).body.length === highestUserBackups)
    expectError(await createBackup(id), 409, /delete one first/)
  })
})

describe('deleting a backup', () => {
  test('returns 204, lists the backup until its snapshot is deleted, and is refused for other tenants', async () => {
    const id = await createStable(client, 'cleared')
    const { body } = await createBackup(id)
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

  test('sets an annotation, is pending from then on, and reports its result', async () => {
    const { body } = await createBackup(await createStable(client, 'verified'))
    expectError(await verify(body.id), 409, /the backup is pending: only a completed backup can be verified/)
    await complete(body.id)
    expect((await metadataOf(body.id)).verification).toBeUndefined()
    const answer = await verify(body.id)
    expect(answer).toMatchObject({ status: 202, body: { id: body.id, metadata: { verification: 'pending' } } })
    expect(await metadataOf(body.id)).toEqual(answer.body.metadata)
    expectError(await verify(body.id), 409, /the backup is already being verified/)
    const verifyAnnotation = (await stored(body.id)).metadata.annotations?.[annotations.verify]
    expect(verifyAnnotation).toMatch(/^2/)
    const waiting = verify(body.id, { prefer: 'wait=10' })
    expect((await waiting).status).toBe(409)
    const result = { endedAt: '2026-01-02T03:04:05Z', version: '18.4', pages: 7, faults: 1, error: '1 found: x' }
    await ofOperator(body.id, { verification: 'failed', verificationResult: { ...result, asked: verifyAnnotation } })
    await until(async () => (await metadataOf(body.id)).verification === 'failed')
    const { endedAt: ended_at, ...counts } = result
    expect((await metadataOf(body.id)).verification_result).toEqual({ ...counts, ended_at: '2026-01-02T03:04:05.000Z' })
    expect(await verify(body.id)).toMatchObject({ status: 202, body: { metadata: { verification: 'pending' } } })
  })

  test('waits for the end of the verification if the request prefers to wait', async () => {
    const { body } = await createBackup(await createStable(client, 'awaited'))
    await complete(body.id)
    const answer = verify(body.id, { prefer: 'wait=10' })
    await until(async () => (await metadataOf(body.id)).verification === 'pending')
    const verifyAnnotation = (await stored(body.id)).metadata.annotations?.[annotations.verify]
    const verificationResult = { endedAt: '2026-01-02T03:04:05Z', asked: verifyAnnotation }
    await ofOperator(body.id, { verification: 'verified', verificationResult })
    expect(await answer).toMatchObject({ status: 202, body: { metadata: { verification: 'verified' } } })
  })

  test('is refused for a missing backup, a failed backup, and with a body', async () => {
    expectError(await verify(crypto.randomUUID()), 404, /backup/)
    const { body } = await createBackup(await createStable(client, 'unverified'))
    expectError(await client.call('POST', `/backups/${body.id}/verify`, { body: { deep: true } }), 400, /deep/)
    await ofOperator(body.id, { phase: 'failed', finishedAt: '2026-01-02T03:04:05Z' })
    expectError(await verify(body.id), 409, /the backup failed: there is nothing to verify/)
  })
})
