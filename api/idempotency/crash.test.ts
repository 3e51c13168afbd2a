/**
 * The API's crash sweep. A process crashes at each of its writes, before and after the cluster has applied the write,
 * for every operation that accepts an Idempotency-Key. A retry, which another process handles, must receive the
 * response of an undisturbed request, and everything must happen once.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import { labels, teardownFinalizer, tenantNamespace } from '../../crds/index.ts'
import { type Client, createStable, expectError, setSnapshotClass, startClient, until } from '../testing/client.ts'

const namespace = tenantNamespace('acme')
let client: Client
let other: Client
beforeAll(async () => {
  client = await startClient()
  other = await startClient({ beside: client })
  await setSnapshotClass(client, { name: 'snapshots', atomic: true })
})
afterAll(async () => {
  await other.close()
  await client.close()
})

type Request = { method: 'POST' | 'PATCH' | 'DELETE'; path: string; body?: unknown; headers?: Record<string, string> }
type Subject = { id: string; name: string }
type Operation = { name: string; request: (subject: Subject) => Promise<Request> | Request }

const backupOf = async ({ id }: Subject, isCompleted = true): Promise<string> => {
  const { body } = await client.call('POST', `/databases/${id}/backup`, { body: { kind: 'hot' } })
  const [backup] = (await client.cluster.list('Backup', { namespace, labels: { [labels.id]: body.id } })).items
  if (backup === undefined) throw new Error('no backup')
  await client.cluster.replaceStatus('Backup', { ...backup, status: isCompleted ? { phase: 'completed' } : {} })
  return body.id
}
const branchOf = async ({ id }: Subject): Promise<string> => {
  const { body } = await client.call('POST', `/databases/${id}/branches`)
  const [branch] = (await client.cluster.list('Branch', { namespace, labels: { [labels.id]: body.id } })).items
  if (branch === undefined) throw new Error('no branch')
  await client.cluster.replaceStatus('Branch', { ...branch, status: { phase: 'available' } })
  return body.id
}
const tagOf = async (path: string): Promise<string> => String((await other.call('GET', path)).headers.etag)

const operations: readonly Operation[] = [
  {
    name: 'create a database',
    request: ({ name }) => ({
      method: 'POST',
      path: '/databases',
      body: { name: `${name}new`, region: 'local', size: 'small' },
    }),
  },
  { name: 'branch', request: ({ id }) => ({ method: 'POST', path: `/databases/${id}/branches` }) },
  {
    name: 'back up',
    request: ({ id }) => ({ method: 'POST', path: `/databases/${id}/backup`, body: { kind: 'hot' } }),
  },
  {
    name: 'change a field that needs no operator',
    request: async ({ id }) => ({
      method: 'PATCH',
      path: `/databases/${id}`,
      body: { display_name: 'Mine' },
      headers: { 'if-match': await tagOf(`/databases/${id}`) },
    }),
  },
  {
    name: 'change the allowlist',
    request: ({ id }) => ({
      method: 'PATCH',
      path: `/databases/${id}`,
      body: { ip_allowlist: { rules: [{ cidr: '10.0.0.0/8' }] } },
    }),
  },
  { name: 'resize', request: ({ id }) => ({ method: 'POST', path: `/databases/${id}/size`, body: { size: 'large' } }) },
  { name: 'restart', request: ({ id }) => ({ method: 'POST', path: `/databases/${id}/restart` }) },
  { name: 'suspend', request: ({ id }) => ({ method: 'POST', path: `/databases/${id}/suspend` }) },
  {
    name: 'rotate a password',
    request: ({ id }) => ({ method: 'POST', path: `/databases/${id}/roles/app/rotate-password` }),
  },
  {
    name: 'restore',
    request: async subject => ({
      method: 'POST',
      path: `/databases/${subject.id}/restore`,
      body: { backup_id: await backupOf(subject) },
    }),
  },
  {
    name: 'verify',
    request: async subject => ({ method: 'POST', path: `/backups/${await backupOf(subject)}/verify` }),
  },
  {
    name: 'delete a database',
    request: async ({ id }) => ({
      method: 'DELETE',
      path: `/databases/${id}`,
      headers: { 'if-match': await tagOf(`/databases/${id}`) },
    }),
  },
  {
    name: 'delete a branch',
    request: async subject => {
      const path = `/databases/${subject.id}/branches/${await branchOf(subject)}`
      await until(async () => (await other.call('GET', path)).body.status === 'available')
      return { method: 'DELETE', path, headers: { 'if-match': await tagOf(path) } }
    },
  },
  {
    name: 'delete a backup with a finalizer of the operator',
    request: async subject => ({ method: 'DELETE', path: `/backups/${await backupOf(subject)}` }),
  },
  {
    name: 'delete a backup without a finalizer',
    request: async subject => {
      const path = `/backups/${await backupOf(subject)}`
      for (const backup of (await client.cluster.list('Backup', { namespace })).items)
        if (backup.spec.databaseId === subject.id && backup.metadata.finalizers?.includes(teardownFinalizer))
          await client.cluster.replace('Backup', { ...backup, metadata: { ...backup.metadata, finalizers: [] } })
      return { method: 'DELETE', path, headers: { 'if-match': await tagOf(path) } }
    },
  },
]

let made = 0
async function newSubject(): Promise<Subject> {
  const name = `subject${++made}x`
  return { id: await createStable(client, name), name }
}

const send = (replica: Client, { method, path, body, headers }: Request, key: string) =>
  replica.call(method, path, { body, headers: { ...headers, 'idempotency-key': key } })

/** Ignores ids, names and times, which differ between databases. */
const shapeOf = (value: unknown, { name }: Subject): string =>
  JSON.stringify(value)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .replaceAll(new RegExp(`${name}(?:new)?(?:-[0-9a-f-]+)?`, 'g'), '<name>')

/** Returns everything in the cluster that a write to a database can change. */
async function effects({ id, name }: Subject): Promise<unknown> {
  const { cluster } = client
  const [databases, branches, backups, tasks] = await Promise.all([
    cluster.list('ManagedDatabase', { namespace }),
    cluster.list('Branch', { namespace }),
    cluster.list('Backup', { namespace }),
    cluster.list('Task', { namespace }),
  ])
  const isOwn = ({ spec }: { spec: { databaseId: string } }) => spec.databaseId === id
  return {
    databases: databases.items.filter(({ metadata }) => metadata.name.startsWith(name)).map(({ spec }) => spec),
    branches: branches.items.filter(isOwn).map(({ spec }) => spec),
    backups: backups.items
      .filter(isOwn)
      .map(({ spec, metadata }) => ({ spec, isDeleting: metadata.deletionTimestamp !== undefined })),
    tasks: tasks.items
      .filter(({ spec }) => spec.subject.name.startsWith(name))
      .map(({ spec }) => spec)
      .sort((expectedEffects, right) => (expectedEffects.name < right.name ? -1 : 1)),
  }
}

type Moment = { write: number; is: 'before' | 'after' }

/** Sends a request to a process that crashes at a given write. Returns undefined if the request has fewer writes. */
async function dieAt(moment: Moment, request: Request, key: string): Promise<boolean> {
  let writes = 0
  let isDead = false
  const die = () => {
    isDead = true
    throw new ClusterError('Unavailable', 'the process has died')
  }
  client.cluster.before = operation => {
    if (isDead) die()
    if (operation === 'get' || operation === 'list') return
    writes++
    if (moment.is === 'before' && writes === moment.write) die()
  }
  client.cluster.after = () => {
    if (moment.is === 'after' && writes === moment.write) die()
  }
  try {
    const answer = await send(client, request, key)
    if (isDead) expect(answer.status).toBe(503)
    return isDead
  } finally {
    client.cluster.before = undefined
    client.cluster.after = undefined
  }
}

const mostWrites = 12

describe.each(operations)('to $name', ({ request: requestOf }) => {
  test('at any crash point, the next process answers as if there had been no crash', async () => {
    const undisturbed = await newSubject()
    const undisturbedRequest = await requestOf(undisturbed)
    const expected = await send(client, undisturbedRequest, `key-of-${undisturbed.name}`)
    expect(expected.status).toBeLessThan(300)
    const seen = { status: expected.status, body: expected.body, hasTask: 'x-task-id' in expected.headers }
    const expectedEffects = shapeOf(await effects(undisturbed), undisturbed)
    let moments = 0
    for (let write = 1; write <= mostWrites; write++)
      for (const is of ['before', 'after'] as const) {
        const subject = await newSubject()
        const request = await requestOf(subject)
        const key = `key-of-${subject.name}`
        if (!(await dieAt({ write, is }, request, key))) continue
        moments++
        const answer = await send(other, request, key)
        const where = `${is} write ${write}: ${JSON.stringify(answer.body)}`
        const got = { status: answer.status, body: answer.body, hasTask: 'x-task-id' in answer.headers }
        expect(shapeOf(got, subject), where).toBe(shapeOf(seen, undisturbed))
        if (got.hasTask)
          expect((await other.call('GET', `/tasks/${answer.headers['x-task-id']}`)).status, where).toBe(200)
        expect(shapeOf(await effects(subject), subject), where).toBe(expectedEffects)
        const again = await send(other, request, key)
        expect([again.status, again.body, again.headers['x-task-id']], where).toEqual([
          answer.status,
          answer.body,
          answer.headers['x-task-id'],
        ])
      }
    expect(moments).toBeGreaterThanOrEqual(6)
    expect(moments).toBeLessThan(2 * mostWrites)
  })
})

describe('changes by other clients before a request is repeated', () => {
  const patch = (id: string, display_name: string, replica = other) =>
    replica.call('PATCH', `/databases/${id}`, { body: { display_name } })
  const change = (id: string, headers = {}): Request => ({
    method: 'PATCH',
    path: `/databases/${id}`,
    body: { display_name: 'Mine' },
    headers,
  })

  test('are kept: the API does not apply a completed change again', async () => {
    const { id, name } = await newSubject()
    expect(await dieAt({ write: 2, is: 'after' }, change(id), name)).toBe(true)
    expect((await patch(id, 'Theirs')).body.display_name).toBe('Theirs')
    expect(await send(other, change(id), name)).toMatchObject({ status: 200, body: { display_name: 'Theirs' } })
  })

  test('are detected by the precondition of a change that was not applied', async () => {
    const { id, name } = await newSubject()
    const request = change(id, { 'if-match': await tagOf(`/databases/${id}`) })
    expect(await dieAt({ write: 2, is: 'before' }, request, name)).toBe(true)
    await patch(id, 'Theirs')
    expectError(await send(other, request, name), 412)
    expect((await other.call('GET', `/databases/${id}`)).body.display_name).toBe('Theirs')
  })

  test('are detected by an unfinished deletion as well', async () => {
    const { id, name } = await newSubject()
    const path = `/databases/${id}`
    const request: Request = { method: 'DELETE', path, headers: { 'if-match': await tagOf(path) } }
    expect(await dieAt({ write: 4, is: 'before' }, request, name)).toBe(true)
    await patch(id, 'Theirs')
    expectError(await send(other, request, name), 412)
    expect((await other.call('GET', path)).status).toBe(200)
  })

  test('do not make the API create a deleted object again, and the key stays used', async () => {
    const { name } = await newSubject()
    const created = `${name}gone`
    const request: Request = {
      method: 'POST',
      path: '/databases',
      body: { name: created, region: 'local', size: 'small' },
    }
    expect(await dieAt({ write: 4, is: 'before' }, request, name)).toBe(true)
    await client.cluster.delete('ManagedDatabase', { namespace, name: created })
    for (const _ of [1, 2])
      expectError(await send(other, request, name), 409, /^Idempotency-Key: the object created with it is deleted/)
    expect(await client.cluster.get('ManagedDatabase', { namespace, name: created })).toBeUndefined()
  })

  test('removes annotations of answered requests', async () => {
    const { id, name } = await newSubject()
    await dieAt({ write: 2, is: 'after' }, change(id), name)
    for (const key of ['a', 'b', 'c']) await send(other, change(id), `${name}${key}`)
    const countWrites = async () =>
      (await client.cluster.get('ManagedDatabase', { namespace, name }))?.metadata.annotations?.[
        'espalier.dev/keyed-writes'
      ]?.split(' ').length
    expect(await countWrites()).toBe(1)
    for (const key of ['d', 'e', 'f'])
      await send(other, { ...change(id), body: { display_name: key } }, `${name}${key}`)
    // The write that was never requested again, and the last write.
    expect(await countWrites()).toBe(2)
    await send(other, change(id), name)
    await send(other, { ...change(id), body: { display_name: 'g' } }, `${name}g`)
    expect(await countWrites()).toBe(1)
  })
})
