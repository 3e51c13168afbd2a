/** Changes and deletions of databases through the API, on the in-process store. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import { annotations, apiVersion, labels, readOperation, teardownFinalizer, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { reconcile } from '../testing/harness.ts'

const namespace = tenantNamespace('acme')

let client: Client
beforeAll(async () => {
  client = await startClient()
})
afterAll(() => client.close())

const stored = (name: string) => storedDatabase(client, name)

describe('restart', () => {
  const restart = (id: string) => client.call('POST', `/databases/${id}/restart`)

  test('sets the same annotation as kubectl, with a task; other operations cause a 409 meanwhile', async () => {
    const id = await createStable(client, 'again')
    const requested = await restart(id)
    expect(requested).toMatchObject({ status: 202, body: { id, status: 'modifying' } })
    const taskId = requested.headers['x-task-id']
    expect(requested.headers.location).toBe(`/managed/v1/tasks/${taskId}`)
    expect(readOperation(await stored('again'))).toMatchObject({ name: 'restart-managed', taskId })
    expect((await stored('again')).metadata.annotations?.[annotations.restart]).toMatch(/^\d{4}-\d\d-\d\dT[0-9:.]+Z$/)
    expect((await client.call('GET', `/tasks/${taskId}`)).body).toMatchObject({
      name: 'restart-managed',
      status: 'queued',
    })
    expectError(await restart(id), 409, /the database is modifying/)
    await reconcile(client.cluster, 'acme', 'again')
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
    const relabelled = { options: ['x'] }
    expect((await client.call('PATCH', `/databases/${id}`, { body: relabelled })).body.status).toBe('available')
    expect((await restart(id)).status).toBe(202)
  })

  test.each([
    ['suspended', /a pending restart takes effect when it is resumed/],
    ['failed', /the database is failed/],
  ] as const)('of a %s database is 409, with the reason', async (phase, message) => {
    const id = await createStable(client, `${phase}too`)
    await reconcile(client.cluster, 'acme', `${phase}too`, { phase })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === phase)
    expectError(await restart(id), 409, message)
  })

  test('of a missing database causes a 404, and a query is refused', async () => {
    expectError(await restart('00000000-0000-4000-8000-000000000000'), 404, /database/)
    const id = await createStable(client, 'queried')
    expectError(await client.call('POST', `/databases/${id}/restart?now=1`), 400, /now/)
  })
})

describe('change', () => {
  test('a field that needs no operator changes at once, without a task', async () => {
    const id = await createStable(client, 'calm', { display_name: 'Calm' })
    const change = (body: object) => client.call('PATCH', `/databases/${id}`, { body })
    const first = await change({ deletion_protection: true, options: ['x'], display_name: 'Calmer' })
    expect(first).toMatchObject({
      status: 200,
      body: { status: 'available', deletion_protection: true, options: ['x'], display_name: 'Calmer' },
    })
    expect(first.headers).not.toHaveProperty('x-task-id')
    expect((await change({ display_name: null })).body.display_name).toBeNull()
    const before = client.cluster.writes
    expect((await change({})).body).toMatchObject({ status: 'available', options: ['x'] })
    expect((await change({ options: ['x'], services: [] })).status).toBe(200)
    expect(client.cluster.writes).toBe(before)
  })

  test('of an allowlist: the status is modifying until the operator has applied it; other changes return 409 meanwhile', async () => {
    const id = await createStable(client, 'listed')
    const change = (body: object) => client.call('PATCH', `/databases/${id}`, { body })
    const changed = await change({ ip_allowlist: { rules: [{ cidr: '10.1.2.3/8' }] } })
    expect(changed).toMatchObject({ status: 200, body: { status: 'modifying' } })
    expect(changed.body.ip_allowlist.rules).toEqual([{ cidr: '10.0.0.0/8' }])
    expect(readOperation(await stored('listed'))).toMatchObject({
      name: 'update-managed-ip-allowlists',
      taskId: changed.headers['x-task-id'],
    })
    expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('modifying')
    for (const body of [{ display_name: 'x' }, { ip_allowlist: { rules: [] } }]) {
      const refused = await change(body)
      expectError(refused, 409, /the database is modifying/)
      expect(refused.headers['retry-after']).toBe('2')
    }
    await reconcile(client.cluster, 'acme', 'listed')
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'available')
    const relabelled = await change({ ip_allowlist: { rules: [{ cidr: '10.0.0.0/8', label: 'all' }] } })
    expect(relabelled).toMatchObject({ status: 200, body: { status: 'available' } })
    expect(relabelled.headers).not.toHaveProperty('x-task-id')
  })

  test.each(['failed', 'suspended'] as const)('%s accepts only changes that need no operator', async phase => {
    const id = await createStable(client, phase)
    await reconcile(client.cluster, 'acme', phase, { phase })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === phase)
    const change = (body: object) => client.call('PATCH', `/databases/${id}`, { body })
    expect((await change({ deletion_protection: false, display_name: 'x' })).status).toBe(200)
    expectError(await change({ ip_allowlist: { rules: [{ cidr: '1.1.1.1' }] } }), 409, new RegExp(`is ${phase}`))
  })

  test('is accepted in every field if the database is degraded', async () => {
    const id = await createStable(client, 'degraded')
    await reconcile(client.cluster, 'acme', 'degraded', { phase: 'degraded' })
    const body = { ip_allowlist: { rules: [{ cidr: '1.1.1.1' }] } }
    expect(await client.call('PATCH', `/databases/${id}`, { body })).toMatchObject({
      status: 200,
      body: { status: 'modifying' },
    })
  })

  test('is decided again after a conflicting write', async () => {
    const id = await createStable(client, 'raced')
    let races = 2
    client.cluster.before = async (operation, kind) => {
      if (operation !== 'replace' || kind !== 'ManagedDatabase' || races-- <= 0) return
      client.cluster.before = undefined
      const object = await stored('raced')
      await client.cluster.replace('ManagedDatabase', { ...object, spec: { ...object.spec, options: ['theirs'] } })
    }
    const answer = await client.call('PATCH', `/databases/${id}`, { body: { display_name: 'ours' } })
    client.cluster.before = undefined
    expect(answer).toMatchObject({ status: 200, body: { display_name: 'ours', options: ['theirs'] } })
  })

  test('returns the first response if the same client repeats it while it runs', async () => {
    const id = await createStable(client, 'mine')
    const change = (body: object) => client.call('PATCH', `/databases/${id}`, { body })
    const changed = { display_name: 'Mine', ip_allowlist: { rules: [{ cidr: '10.1.2.3/8', label: 'all' }] } }
    const first = await change(changed)
    expect(first.body.status).toBe('modifying')
    const writes = client.cluster.writes
    const again = await change(changed)
    expect(again).toMatchObject({ status: 200, body: first.body })
    expect(again.headers).toMatchObject({ 'x-task-id': first.headers['x-task-id'], location: first.headers.location })
    expect(client.cluster.writes).toBe(writes)
    // Each request differs in one field.
    for (const body of [
      { ...changed, display_name: 'Yours' },
      { ip_allowlist: { rules: [{ cidr: '10.0.0.0/8' }] } },
      { ip_allowlist: { rules: [] } },
    ])
      expectError(await change(body), 409, /the database is modifying/)
    expectError(await change({ ...changed, services: [{ service_type: 'mcp' }] }), 409, /the database is modifying/)
  })

  test('causes a 409 while another operation runs, even if it changes nothing', async () => {
    const id = await createStable(client, 'theirs')
    expect((await client.call('POST', `/databases/${id}/restart`)).status).toBe(202)
    const refused = await client.call('PATCH', `/databases/${id}`, { body: { options: [] } })
    expectError(refused, 409, /the database is modifying/)
    expect(refused.headers['retry-after']).toBe('2')
  })

  test('many concurrent changes all succeed, also beside other writers', async () => {
    const id = await createStable(client, 'crowded')
    let others = 0
    let stopped = false
    const beside = (async () => {
      while (!stopped) {
        const object = await stored('crowded')
        const annotations = { ...object.metadata.annotations, beside: String(others++) }
        await client.cluster
          .replace('ManagedDatabase', { ...object, metadata: { ...object.metadata, annotations } })
          .catch(() => {})
        await new Promise(resolve => setTimeout(resolve, 100))
      }
    })()
    // Simulates the latency of a remote cluster.
    client.cluster.before = () => new Promise(resolve => setTimeout(resolve, 5))
    const before = client.cluster.writes
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        client.call('PATCH', `/databases/${id}`, { body: { options: [`of ${n}`] } }),
      ),
    )
    const tries = client.cluster.writes - before - others
    stopped = true
    client.cluster.before = undefined
    await beside
    expect(answers.map(({ status }) => status)).toEqual(Array(40).fill(200))
    // Every retry was caused by another writer.
    expect(tries).toBeLessThanOrEqual(40 + others)
  })

  test('returns 409 if each attempt conflicts with another writer', async () => {
    const id = await createStable(client, 'storm')
    client.cluster.before = async (operation, kind) => {
      if (operation !== 'replace' || kind !== 'ManagedDatabase') return
      const hook = client.cluster.before
      client.cluster.before = undefined
      const object = await stored('storm')
      await client.cluster.replace('ManagedDatabase', {
        ...object,
        metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, busy: String(Math.random()) } },
      })
      client.cluster.before = hook
    }
    const answer = await client.call('PATCH', `/databases/${id}`, { body: { display_name: 'ours' } })
    client.cluster.before = undefined
    expectError(answer, 409, /another client is changing/)
    expect(answer.headers['retry-after']).toBe('1')
  })
})

describe('delete', () => {
  const finalize = async (name: string) => {
    const object = await stored(name)
    await client.cluster.replace('ManagedDatabase', {
      ...object,
      metadata: { ...object.metadata, finalizers: [teardownFinalizer] },
    })
  }

  test('returns 204 and sets the status deleting; a repeated request changes nothing', async () => {
    const id = await createStable(client, 'doomed')
    await finalize('doomed')
    const first = await client.call('DELETE', `/databases/${id}`)
    expect(first).toMatchObject({ status: 204, body: '' })
    expect((await client.call('GET', `/databases/${id}`)).body.status).toBe('deleting')
    const before = client.cluster.writes
    const again = await client.call('DELETE', `/databases/${id}`)
    expect(again.status).toBe(204)
    expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
    expect(client.cluster.writes).toBe(before)
    expectError(await client.call('PATCH', `/databases/${id}`, { body: { options: [] } }), 409, /is deleting/)
    const task = await client.call('GET', `/tasks/${first.headers['x-task-id']}`)
    expect(task.body).toMatchObject({
      name: 'delete-managed',
      subject_id: id,
      request: { force: false, keep_backups: false },
    })
  })

  test('immediately deletes a database that the operator never reconciled', async () => {
    const { body } = await client.create('fleeting')
    expect((await client.call('DELETE', `/databases/${body.id}`, { headers: { prefer: 'wait=5' } })).status).toBe(204)
    expectError(await client.call('GET', `/databases/${body.id}`), 404, /^database not found$/)
    expectError(await client.call('DELETE', `/databases/${body.id}`), 404)
  })

  test('succeeds if the operator answers each deletion annotation with a write', async () => {
    const id = await createStable(client, 'answered')
    await finalize('answered')
    let replaced = 0
    let answered = 0
    client.cluster.before = async (operation, kind) => {
      if (kind !== 'ManagedDatabase') return
      if (operation === 'replace') replaced++
      if (operation !== 'delete' || answered === replaced) return
      answered = replaced
      const hook = client.cluster.before
      client.cluster.before = undefined
      const { metadata, ...object } = await stored('answered')
      const annotations = { ...metadata.annotations, answered: String(answered) }
      await client.cluster.replace('ManagedDatabase', { ...object, metadata: { ...metadata, annotations } })
      client.cluster.before = hook
    }
    const answer = await client.call('DELETE', `/databases/${id}`)
    client.cluster.before = undefined
    expect(answer.status).toBe(204)
    expect((await stored('answered')).metadata.deletionTimestamp).toBeDefined()
  })

  test('shows the status deleting and accepts a wait, if the cache has only the deletion annotation', async () => {
    const id = await createStable(client, 'unheard')
    await finalize('unheard')
    const delivered = Promise.withResolvers<void>()
    client.cluster.before = async (operation, kind) => {
      if (operation !== 'delete' || kind !== 'ManagedDatabase') return
      const { metadata } = await stored('unheard')
      await until(
        async () =>
          (await client.call('GET', `/databases/${id}`)).body.updated_at ===
          metadata.annotations?.[annotations.updatedAt],
      )
      client.cluster.silence = delivered.promise
    }
    const begun = performance.now()
    const answer = await client.call('DELETE', `/databases/${id}`, { headers: { prefer: 'wait=1' } })
    const tookMs = performance.now() - begun
    client.cluster.before = undefined
    const { body } = await client.call('GET', `/databases/${id}`)
    client.cluster.silence = undefined
    delivered.resolve()
    expect(answer.status).toBe(204)
    expect(body.status).toBe('deleting')
    expect(tookMs).toBeGreaterThan(900)
  })

  test('reads return 404 after the deletion, even if the cache still has the database as deleting', async () => {
    const id = await createStable(client, 'vanished')
    await finalize('vanished')
    expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.status === 'deleting')
    const delivered = Promise.withResolvers<void>()
    client.cluster.silence = delivered.promise
    try {
      const going = await stored('vanished')
      await client.cluster.replace('ManagedDatabase', { ...going, metadata: { ...going.metadata, finalizers: [] } })
      expect((await client.call('GET', `/databases/${id}`)).status).toBe(404)
      expect((await client.call('GET', `/databases/${id}/logs`)).status).toBe(404)
    } finally {
      client.cluster.silence = undefined
      delivered.resolve()
    }
  })

  test('is refused under deletion protection, even with force', async () => {
    const id = await createStable(client, 'guarded')
    await client.call('PATCH', `/databases/${id}`, { body: { deletion_protection: true } })
    for (const query of ['', '?force=true']) {
      const refused = await client.call('DELETE', `/databases/${id}${query}`)
      expectError(refused, 409, /protected from deletion/)
      expect(refused.headers).not.toHaveProperty('retry-after')
    }
  })

  test('keeps the backups on request, by the query or by kubectl', async () => {
    for (const [name, query, keepBackups] of [
      ['leaving', '?keep_backups=true', true],
      ['taking', '', false],
    ] as const) {
      const id = await createStable(client, name)
      await finalize(name)
      expect((await client.call('DELETE', `/databases/${id}${query}`)).status).toBe(204)
      expect((await stored(name)).spec.deletion).toEqual({ keepBackups })
    }
    const id = await createStable(client, 'left')
    await finalize('left')
    const { spec, ...rest } = await stored('left')
    await client.cluster.replace('ManagedDatabase', { ...rest, spec: { ...spec, deletion: { keepBackups: true } } })
    expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
    expect((await stored('left')).spec.deletion).toEqual({ keepBackups: true })
    expectError(await client.call('DELETE', `/databases/${id}?keep_backups=maybe`), 400, /^keep_backups: /)
  })

  test('is refused with branches, unless forced', async () => {
    const id = await createStable(client, 'branched')
    await finalize('branched')
    const { spec } = await stored('branched')
    const branchId = crypto.randomUUID()
    await client.cluster.create('Branch', {
      apiVersion,
      kind: 'Branch',
      metadata: { name: 'branched-1', namespace, labels: { [labels.id]: branchId } },
      spec: {
        databaseName: 'branched',
        databaseId: id,
        region: spec.region,
        size: spec.size,
        pgVersion: spec.pgVersion,
      },
    })
    await until(async () => (await client.call('GET', `/databases/${id}`)).body.branch_count === 1)
    const { body: branches } = await client.call('GET', `/databases/${id}/branches`)
    expect(branches).toMatchObject([
      { id: branchId, database_id: id, depth: 1, status: 'creating', ip_allowlist: { state: 'closed' } },
    ])
    expect((await client.call('GET', `/databases/${id}/branches/${branchId}`)).body).toEqual(branches[0])
    expectError(await client.call('DELETE', `/databases/${id}`), 409, /has a branch/)
    expect((await client.call('DELETE', `/databases/${id}?force=true`)).status).toBe(204)
    expect((await stored('branched')).metadata.annotations?.[annotations.force]).toBe('true')
  })

  test('keeps no force annotation if it fails, and ignores an older one', async () => {
    const id = await createStable(client, 'unforced')
    await finalize('unforced')
    const force = async () => (await stored('unforced')).metadata.annotations?.[annotations.force]
    client.cluster.before = async (operation, kind) => {
      if (operation === 'delete' && kind === 'ManagedDatabase') throw new ClusterError('Unavailable', 'gone')
    }
    expect((await client.call('DELETE', `/databases/${id}?force=true`)).status).toBe(503)
    client.cluster.before = undefined
    expect(await force(), 'a deletion that failed').toBeUndefined()
    const { metadata, ...rest } = await stored('unforced')
    const forced = { ...metadata.annotations, [annotations.force]: 'true' }
    await client.cluster.replace('ManagedDatabase', { ...rest, metadata: { ...metadata, annotations: forced } })
    expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
    expect(await force(), 'a deletion without it').toBeUndefined()
    expect((await client.call('DELETE', `/databases/${id}?force=true`)).status).toBe(204)
    expect(await force(), 'the same deletion, repeated with force').toBe('true')
  })

  test('is refused while a failed branch exists', async () => {
    const id = await createStable(client, 'failedbranch')
    await finalize('failedbranch')
    const { spec } = await stored('failedbranch')
    const { region, size, pgVersion } = spec
    const branch = await client.cluster.create('Branch', {
      ...{
        apiVersion,
        kind: 'Branch',
        metadata: { name: 'failedbranch-1', namespace, labels: { [labels.id]: crypto.randomUUID() } },
      },
      spec: { databaseName: 'failedbranch', databaseId: id, region, size, pgVersion },
    })
    const failed = await client.cluster.replaceStatus('Branch', { ...branch, status: { phase: 'failed' } })
    expectError(await client.call('DELETE', `/databases/${id}`), 409, /has a branch/)
    await client.cluster.delete('Branch', failed.metadata)
    expect((await client.call('DELETE', `/databases/${id}`)).status).toBe(204)
  })
})

describe('two replicas', () => {
  test('each immediately find objects that the other has created', async () => {
    const other = await startClient({ beside: client })
    try {
      for (let n = 0; n < 10; n++) {
        const { body, headers } = await client.create(`shared${n}`)
        expect((await other.call('GET', `/databases/${body.id}`)).status).toBe(200)
        expect((await other.call('GET', `/tasks/${headers['x-task-id']}`)).status).toBe(200)
      }
      const answers = await Promise.all([client.create('both'), other.create('both')])
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
    } finally {
      await other.close()
    }
  })
})
