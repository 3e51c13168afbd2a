/** Entity tags: how they are parsed, and their effect on conditional reads and writes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { labels, tenantNamespace } from '../crds/index.ts'
import { entityTag } from './preconditions.ts'
import {
  type Client,
  createStable,
  expectError,
  setSnapshotClass,
  startClient,
  storedDatabase,
  until,
} from './testing/client.ts'
import { giveCredentials, reconcile, sizeId } from './testing/harness.ts'

let client: Client
let id: string
let branch: string
let backup: string
beforeAll(async () => {
  client = await startClient()
  await setSnapshotClass(client, { name: 'snapshots', atomic: true })
  id = await createStable(client, 'tagged')
  branch = (await client.call('POST', `/databases/${id}/branches`)).body.id
  backup = (await client.call('POST', `/databases/${id}/backup`, { body: { kind: 'hot' } })).body.id
})
afterAll(() => client.close())

const get = (path: string, headers: Record<string, string> = {}) => client.call('GET', path, { headers })
const patch = (headers: Record<string, string>, body: object, at = id) =>
  client.call('PATCH', `/databases/${at}`, { headers, body })
const stale = '"stale"'

describe('a read of one object', () => {
  const paths = () => [
    `/databases/${id}`,
    `/databases/${id}?user_type=admin`,
    `/databases/${id}/branches/${branch}`,
    `/backups/${backup}`,
    `/sizes/${sizeId}`,
    `/sizes/${sizeId}?include=pricing`,
  ]
  test('has the ETag of its body, and causes a 304 for a client that has this body', async () => {
    const { body: tasks } = await get(`/tasks?subject_id=${id}`)
    for (const path of [...paths(), `/tasks/${tasks[0].id}`]) {
      const read = await get(path)
      const tag = String(read.headers.etag)
      expect({ path, status: read.status, tag }).toEqual({
        path,
        status: 200,
        tag: entityTag(JSON.stringify(read.body)),
      })
      for (const known of [tag, `W/${tag}`, `${stale}, ${tag}`, '*']) {
        const again = await get(path, { 'if-none-match': known })
        expect(again).toMatchObject({ status: 304, body: '', headers: { etag: tag } })
        expect(again.headers).not.toHaveProperty('content-type')
        expect(again.headers['cache-control']).toBe(read.headers['cache-control'])
        expect(again.headers['x-request-id']).toBeDefined()
      }
      // The API ignores an unreadable condition, and a tag of another object does not match.
      for (const other of [stale, 'nonsense', '"'])
        expect((await get(path, { 'if-none-match': other })).status).toBe(200)
      const head = await client.call('HEAD', path)
      expect(head.headers.etag).toBe(tag)
      const unchanged = await client.call('HEAD', path, { headers: { 'if-none-match': tag } })
      expect(unchanged).toMatchObject({ status: 304, body: '' })
      // A client that keeps its cached response updates its headers from this response.
      for (const name of ['content-length', 'content-type', 'cache-control'])
        expect(unchanged.headers[name]).toBe(head.headers[name])
    }
  })

  test('responses for different roles have different tags', async () => {
    const tags = await Promise.all(
      ['application', 'admin', 'application_read_only'].map(
        async type => (await get(`/databases/${id}?user_type=${type}`)).headers.etag,
      ),
    )
    expect(new Set(tags).size).toBe(3)
    expect((await get(`/databases/${id}`)).headers['cache-control']).toBe('no-store')
  })

  test('the tag changes exactly when the body changes', async () => {
    const body = async () => {
      const { headers, body: read } = await get(`/databases/${id}`)
      return { tag: headers.etag, text: JSON.stringify(read) }
    }
    const seen = [await body(), await body()]
    for (const change of [{ options: ['x'] }, { options: ['x'] }, { display_name: 'T' }, {}]) {
      await patch({}, change)
      seen.push(await body())
    }
    await client.call('PATCH', `/databases/${id}`, { body: { options: [], display_name: null } })
    const byTag = new Map(seen.map(({ tag, text }) => [tag, text]))
    const byText = new Map(seen.map(({ tag, text }) => [text, tag]))
    expect([byTag.size, byText.size]).toEqual([3, 3])
    for (const { tag, text } of seen) expect([byTag.get(tag), byText.get(text)]).toEqual([text, tag])
  })
})

describe('a change', () => {
  test('is applied if nothing has changed since, with the tag of any role', async () => {
    for (const type of ['application', 'admin', 'application_read_only']) {
      const { headers } = await get(`/databases/${id}?user_type=${type}`)
      const tag = String(headers.etag)
      expect((await patch({ 'if-match': `${stale}, ${tag}` }, { display_name: type })).status).toBe(200)
      const late = await patch({ 'if-match': tag }, { display_name: 'late' })
      expectError(late, 412, /^If-Match: the object has changed/)
      expect(late.headers).not.toHaveProperty('retry-after')
    }
    expect((await get(`/databases/${id}`)).body.display_name).toBe('application_read_only')
  })

  test('returns the tag for the next conditional change', async () => {
    const first = await patch({}, { options: ['1'] })
    const tag = String(first.headers.etag)
    expect((await get(`/databases/${id}`, { 'if-none-match': tag })).status).toBe(304)
    expect((await patch({ 'if-match': tag }, { options: ['2'] })).status).toBe(200)
    expect((await patch({ 'if-match': tag }, { options: ['3'] })).status).toBe(412)
  })

  test('of two clients that read the same version, one succeeds', async () => {
    const { headers } = await get(`/databases/${id}`)
    const tag = String(headers.etag)
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => patch({ 'if-match': tag }, { options: [`of ${n}`] })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(412)])
  })

  test('requires only that the object exists, for *', async () => {
    expect((await patch({ 'if-match': '*' }, { options: [] })).status).toBe(200)
    expectError(await patch({ 'if-match': '*' }, {}, '0198c0de-0000-7000-8000-000000000001'), 404)
    expectError(await patch({ 'if-none-match': '*' }, {}), 412, /^If-None-Match/)
  })

  test('never matches a weak tag, and is refused if the tag cannot be computed', async () => {
    const { headers } = await get(`/databases/${id}`)
    expectError(await patch({ 'if-match': `W/${headers.etag}` }, {}), 412)
    for (const malformed of ['', 'abc', '"a" "b"', '"a", *', String(headers.etag).slice(1)])
      expectError(await patch({ 'if-match': malformed }, {}), 400, /^If-Match: must be \* or a list of entity tags/)
    expectError(
      await client.call('POST', `/databases/${id}/restart`, { headers: { 'if-match': String(headers.etag) } }),
      400,
      /^If-Match: only PATCH and DELETE accept it$/,
    )
  })

  test('that is already being applied returns its response again, whatever the current tag is', async () => {
    const other = await createStable(client, 'again')
    const tag = String((await get(`/databases/${other}`)).headers.etag)
    const body = { ip_allowlist: { rules: [{ cidr: '10.0.0.0/8' }] } }
    const first = await patch({ 'if-match': tag }, body, other)
    const again = await patch({ 'if-match': tag }, body, other)
    expect(again).toMatchObject({ status: 200, body: first.body })
    expect(again.headers['x-task-id']).toBe(first.headers['x-task-id'])
  })

  test('is decided on the stored object, not on a stale cache', async () => {
    const other = await createStable(client, 'cached')
    const tag = String((await get(`/databases/${other}`)).headers.etag)
    const { promise, resolve } = Promise.withResolvers<void>()
    client.cluster.silence = promise
    const object = await storedDatabase(client, 'cached')
    await client.cluster.replace('ManagedDatabase', { ...object, spec: { ...object.spec, options: ['theirs'] } })
    expect((await get(`/databases/${other}`)).headers.etag).toBe(tag)
    expectError(await patch({ 'if-match': tag }, { options: ['ours'] }, other), 412)
    client.cluster.silence = undefined
    resolve()
  })
})

describe('a deletion', () => {
  const remove = (path: string, tag: string) => client.call('DELETE', path, { headers: { 'if-match': tag } })

  test('of a database, a branch and a backup is applied if nothing has changed since', async () => {
    const other = await createStable(client, 'doomed')
    const made = (await client.call('POST', `/databases/${id}/branches`)).body.id
    const namespace = tenantNamespace('acme')
    const { items } = await client.cluster.list('Branch', { namespace, labels: { [labels.id]: made } })
    await giveCredentials(client.cluster, namespace, made)
    for (const item of items)
      await client.cluster.replaceStatus('Branch', {
        ...item,
        status: { phase: 'available', endpoint: { host: '127.0.0.1', port: 15433 } },
      })
    const ofBranch = `/databases/${id}/branches/${made}`
    await until(async () => (await get(ofBranch)).body.status === 'available')
    expect((await get(ofBranch)).body.connection.username).toBe('app')
    for (const path of [`/databases/${other}`, ofBranch, `/backups/${backup}`]) {
      const tag = String((await get(path)).headers.etag)
      expectError(await remove(path, stale), 412, /^If-Match/)
      expectError(await remove(path, `W/${tag}`), 412, /^If-Match/)
      expect({ path, status: (await remove(path, tag)).status }).toEqual({ path, status: 204 })
    }
  })

  test("that met its precondition is not stopped by its own annotation, or by the operator's answer to it", async () => {
    const other = await createStable(client, 'marked')
    const tag = String((await get(`/databases/${other}`)).headers.etag)
    let deletions = 0
    client.cluster.before = async (operation, kind) => {
      if (operation !== 'delete' || kind !== 'ManagedDatabase' || deletions++ > 0) return
      const database = await storedDatabase(client, 'marked')
      await client.cluster.replaceStatus('ManagedDatabase', {
        ...database,
        status: { ...database.status, storageUsedBytes: 1 },
      })
    }
    expect((await remove(`/databases/${other}`, tag)).status).toBe(204)
    client.cluster.before = undefined
    expect(deletions).toBe(2)
  })

  test('checks the precondition before other conflicts', async () => {
    const protectedId = await createStable(client, 'kept', {})
    await patch({}, { deletion_protection: true }, protectedId)
    expectError(await remove(`/databases/${protectedId}`, stale), 412)
    const refused = await client.call('DELETE', `/databases/${protectedId}`)
    expectError(refused, 409, /protected/)
    expect(refused.headers).not.toHaveProperty('retry-after')
    await reconcile(client.cluster, 'acme', 'kept')
  })
})
