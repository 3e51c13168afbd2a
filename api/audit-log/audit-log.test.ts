/** GET /audit: what replicas store, and what clients read. */
import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ClusterError, type ConfigMap } from '../../cluster/index.ts'
import { labels, tenantNamespace } from '../../crds/index.ts'
import type { AuditEntry } from '../audit.ts'
import { type Client, createStable, expectError, startClient, until } from '../testing/client.ts'
import { auditComponent, linesOf, mostSegments, retentionMs, segmentName } from './segment.ts'

const namespace = tenantNamespace('acme')
/** When tokens of tests that change the clock expire. */
const always = 4_000_000_000
let client: Client
let other: Client
let log: string[]
beforeEach(async () => {
  log = []
  client = await startClient({ log: line => log.push(line) })
  other = await startClient({ beside: client, log: line => log.push(line) })
})
afterEach(async () => {
  await other.close()
  await client.close()
})

type Entry = {
  id: string
  time: string
  request_id: string
  method: string
  path: string
  status: number
  outcome: string
}
const read = async (replica: Client, query = '', claims = {}): Promise<Entry[]> => {
  const answer = await replica.call('GET', `/audit${query}`, { claims })
  expect(answer.status).toBe(200)
  return answer.body
}
/** A refused write. Its request id identifies it. */
const attempt = (replica: Client, requestId: string, claims = {}) =>
  replica.call('POST', '/databases', { body: {}, headers: { 'x-request-id': requestId }, claims })
const requestIds = (entries: readonly Entry[]) => entries.map(({ request_id: requestId }) => requestId)
const segments = async (): Promise<ConfigMap[]> =>
  (await client.cluster.list('ConfigMap', { namespace, labels: { [labels.component]: auditComponent } })).items
const warnings = (text: string) => log.filter(line => JSON.parse(line).level >= 40 && line.includes(text))

describe('GET /audit', () => {
  test('returns accepted and refused writes of every replica, newest first', async () => {
    const { body } = await client.create('shop')
    client.now.ms = other.now.ms = 1000
    await attempt(other, 'second')
    client.now.ms = 2000
    await client.call('DELETE', `/databases/${body.id}`, { headers: { 'x-request-id': 'third' } })
    await Promise.all([client.auditRecorder.flush(), other.auditRecorder.flush()])
    await Promise.all([client.auditRecorder.flush(), other.auditRecorder.flush()])
    const [third, second, first] = await read(client)
    expect(first).toMatchObject({
      ...{ method: 'POST', path: '/managed/v1/databases', status: 200, outcome: 'accepted', member: 'ada' },
      subject_id: body.id,
    })
    expect(first).toMatchObject({ id: expect.any(String), address: '127.0.0.1', task_id: expect.any(String) })
    expect(second).toMatchObject({ request_id: 'second', status: 400, outcome: 'refused' })
    expect(third).toMatchObject({ request_id: 'third', method: 'DELETE' })
    expect(await read(other)).toEqual([third, second, first])
    expect(await segments()).toHaveLength(1)
  })

  test('returns entries of this replica at once, and all of them after a stop', async () => {
    await client.create('shop')
    await attempt(client, 'at-once')
    expect(requestIds(await read(client))[0]).toBe('at-once')
    expect(await read(other)).toEqual([])
    await client.auditRecorder.stop()
    expect(requestIds(await read(other))[0]).toBe('at-once')
  })

  test('never returns an entry of another tenant, also from a segment that was copied', async () => {
    await client.create('shop')
    const theirs = { tenant: 'globex' }
    await client.call('POST', '/databases', { body: { name: 'x', region: 'local', size: 'small' }, claims: theirs })
    await attempt(client, 'theirs', theirs)
    expect(requestIds(await read(client))).not.toContain('theirs')
    await client.auditRecorder.flush()
    expect(requestIds(await read(client))).not.toContain('theirs')
    expect(requestIds(await read(client, '', theirs))).toContain('theirs')
    const [copied] = (
      await client.cluster.list('ConfigMap', {
        namespace: tenantNamespace('globex'),
        labels: { [labels.component]: auditComponent },
      })
    ).items
    await client.cluster.create('ConfigMap', {
      ...{ apiVersion: 'v1', kind: 'ConfigMap', data: copied?.data ?? {} },
      metadata: { name: 'audit-00000009', namespace, labels: copied?.metadata.labels ?? {} },
    })
    expect(requestIds(await read(client))).not.toContain('theirs')
    expect(warnings('not a segment of this tenant')).toHaveLength(1)
    await attempt(other, 'beside-the-copy')
    await other.auditRecorder.flush()
    expect(requestIds(await read(client))).toContain('beside-the-copy')
  })

  test('filters by database, with its branches, by time, and by outcome', async () => {
    const one = await createStable(client, 'one')
    const two = await createStable(client, 'two')
    client.now.ms = 60_000
    const headers = (id: string) => ({ headers: { 'x-request-id': id } })
    await client.call('POST', `/databases/${one}/branches`, { body: { unknown: 1 }, ...headers('branch') })
    await client.call('PATCH', `/databases/${two}`, { body: { display_name: 'Two' }, ...headers('two') })
    await client.call('POST', `/databases/${one.toUpperCase()}/sql`, { body: {}, ...headers('sql') })
    // As a branch that is deleted since: only the path names the database.
    client.auditRecorder.write({
      ...{ ...entry(0), request_id: 'deleted-branch', subject_id: crypto.randomUUID(), tenant: 'acme' },
      ...{ path: `/managed/v1/databases/${one}/branches`, time: new Date(Date.now() + 59_000).toISOString() },
      service: { database_id: one, type: 'mcp', tool: 'query_database', result: 'answered', status: 200 },
    })
    await client.auditRecorder.flush()
    const [deleted, sql, branch, created] = await read(client, `?database_id=${one}`)
    expect(requestIds([deleted, sql, branch] as Entry[])).toEqual(['deleted-branch', 'sql', 'branch'])
    expect(deleted).toMatchObject({ service: { type: 'mcp', tool: 'query_database', result: 'answered', status: 200 } })
    expect(created).toMatchObject({ path: '/managed/v1/databases', subject_id: one })
    expect(await read(client, `?database_id=${one}`)).toHaveLength(4)
    const time = encodeURIComponent(branch?.time ?? '')
    expect(requestIds(await read(client, `?since=${time}`)).toReversed()).toEqual(['branch', 'two', 'sql'])
    expect(await read(client, `?until=${time}`)).toHaveLength(3)
    expect(await read(client, `?database_id=${crypto.randomUUID()}`)).toEqual([])
    expect(requestIds(await read(client, '?outcome=refused'))).toEqual(['sql', 'branch'])
    for (const query of ['?outcome=lost', '?since=yesterday', '?cursor=1', '?limit=0', '?database_id=x', '?offset=1'])
      expectError(await client.call('GET', `/audit${query}`), 400)
  })

  test('a cursor continues where the page ended, while entries arrive', async () => {
    await client.create('shop')
    for (let number = 0; number < 7; number++) await attempt(number % 2 ? client : other, `n${number}`)
    await client.auditRecorder.flush()
    await other.auditRecorder.flush()
    const seen: string[] = []
    let path: string | undefined = '/audit?limit=3'
    for (let page = 0; path !== undefined && page < 10; page++) {
      const answer: Awaited<ReturnType<Client['call']>> = await other.call('GET', path)
      seen.push(...requestIds(answer.body))
      await attempt(client, 'late')
      await client.auditRecorder.flush()
      const [, next] = /^<\/managed\/v1([^>]+)>; rel="next"$/.exec(String(answer.headers.link ?? '')) ?? []
      path = next
    }
    expect(seen).toHaveLength(8)
    expect(new Set(seen).size).toBe(8)
    expect((await client.call('GET', '/audit?limit=1000')).headers['x-applied-limit']).toBe('200')
  })

  test('orders entries by the clocks of their replicas, and returns none that is older than 30 days', async () => {
    await client.create('shop')
    other.now.ms = -5000
    await attempt(other, 'earlier')
    await attempt(client, 'later')
    other.now.ms = 0
    await client.auditRecorder.flush()
    await other.auditRecorder.flush()
    expect(requestIds(await read(client)).filter(id => id === 'earlier' || id === 'later')).toEqual([
      'later',
      'earlier',
    ])
    client.now.ms = retentionMs + 5000
    await attempt(client, 'now', { exp: always })
    expect(requestIds(await read(client, '', { exp: always }))).toEqual(['now'])
  })

  test('skips a segment that cannot be read, once in the log, and begins the next one', async () => {
    await client.create('shop')
    await client.auditRecorder.flush()
    const [first] = await segments()
    if (first === undefined) throw new Error('no segment')
    await client.cluster.replace('ConfigMap', { ...first, data: { 'entries.jsonl.gz': 'tampered' } })
    await attempt(client, 'after')
    await client.auditRecorder.flush()
    for (let times = 0; times < 3; times++) expect(requestIds(await read(other))).toEqual(['after'])
    expect(warnings('cannot be decompressed')).toHaveLength(1)
    expect((await segments()).map(({ metadata }) => metadata.name)).toEqual(['audit-00000001', 'audit-00000002'])
  })
})

test('segments that a user of kubectl edits or creates hide no other entry, and are read within limits', async () => {
  await client.create('shop')
  await attempt(client, 'before')
  await client.auditRecorder.flush()
  const [first] = await segments()
  if (first === undefined) throw new Error('no segment')
  const create = (number: number, lines: readonly string[], more: object = {}) =>
    client.cluster.create('ConfigMap', {
      ...{ apiVersion: 'v1', kind: 'ConfigMap', data: { 'entries.jsonl.gz': gzipped(lines) } },
      metadata: { name: segmentName(number), namespace, labels: first.metadata.labels ?? {}, ...more },
    })
  const foreign = Array.from(
    { length: 2000 },
    () => `{"id":"ffffffff-ffff-4fff-8fff-${randomBytes(6).toString('hex')}"}`,
  )
  const [newest] = await linesOf(first)
  const second = newest?.text.replace(/}$/, ',"id":"00000000-0000-7000-8000-000000000000"}').replace('"0', '"1') ?? ''
  await create(2, [...foreign, second])
  expect(requestIds(await read(client))).toContain('before')
  expect(await read(client)).toHaveLength(2)
  expect(warnings('the line is not an entry')).toHaveLength(1)

  // One without labels, an immutable one, and the last number.
  await create(3, [], { labels: {} })
  client.cluster.before = (operation, kind) => {
    if (kind === 'ConfigMap' && operation === 'replace') throw new ClusterError('Invalid', 'it is immutable')
  }
  await attempt(client, 'after')
  for (let pass = 0; pass < 3; pass++) await client.auditRecorder.flush()
  client.cluster.before = undefined
  expect(requestIds(await read(other))).toContain('after')
  await create(99_999_999, ['not a line'])
  await attempt(other, 'last')
  await other.auditRecorder.flush()
  expect((await segments()).every(({ metadata }) => /^audit-[0-9]{8}$/.test(metadata.name))).toBe(true)
})

test('an account reads at most four pages at once', async () => {
  await client.create('shop')
  const { promise: hanging, resolve: release } = Promise.withResolvers<void>()
  let lists = 0
  client.cluster.before = (operation, kind) => {
    if (kind !== 'ConfigMap' || operation !== 'list') return undefined
    lists++
    return hanging
  }
  const running = Array.from({ length: 4 }, () => client.call('GET', '/audit'))
  await until(() => lists === 4)
  expectError(await client.call('GET', '/audit'), 429)
  release()
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect((await client.call('GET', '/audit')).status).toBe(200)
  expect(lists).toBe(5)
})

const gzipped = (lines: readonly string[]) => gzipSync(lines.join('\n')).toString('base64')

const entry = (number: number): AuditEntry => ({
  ...{ time: new Date().toISOString(), tenant: 'acme', address: '::1', method: 'POST', path: '/x' },
  ...{ request_id: `${number} ${crypto.randomUUID()}${crypto.randomUUID()}`, status: 200, outcome: 'accepted' },
})

describe('the recorder', () => {
  const dropped = async () =>
    Number(/^espalier_api_audit_dropped_total (\d+)$/m.exec(await client.metrics.registry.metrics())?.[1])

  test('stores each entry once, if two replicas write at once and responses are lost', async () => {
    await client.create('shop')
    let calls = 0
    client.cluster.after = () => {
      if (++calls % 3 === 0) throw new ClusterError('Unavailable', 'the response is lost')
    }
    for (let number = 0; number < 20; number++) {
      await attempt(client, `a${number}`)
      await attempt(other, `b${number}`)
      await Promise.all([client.auditRecorder.flush(), other.auditRecorder.flush()])
    }
    client.cluster.after = undefined
    for (let pass = 0; pass < 3; pass++) {
      await client.auditRecorder.flush()
      await other.auditRecorder.flush()
    }
    const third = await startClient({ beside: client })
    const found = requestIds(await read(third, '?limit=200'))
    await third.close()
    expect(found).toHaveLength(41)
    expect(new Set(found).size).toBe(41)
    const lines = await Promise.all((await segments()).map(linesOf))
    expect(lines.flat()).toHaveLength(41)
    expect(await dropped()).toBe(0)
  })

  test('keeps at most 256 KiB of a tenant, and the newest entries', async () => {
    await client.create('shop')
    let number = 0
    for (let batch = 0; batch < 12; batch++) {
      for (let count = 0; count < 300; count++) {
        number++
        client.auditRecorder.write(entry(number))
      }
      while (client.auditRecorder.waiting('acme').length > 0) await client.auditRecorder.flush()
    }
    const stored = await segments()
    expect(stored).toHaveLength(mostSegments)
    const bytes = stored.reduce((sum, { data }) => sum + JSON.stringify(data).length, 0)
    expect(bytes).toBeLessThan(257 * 1024)
    const [newest] = await read(other, '?limit=1')
    expect(newest?.request_id).toMatch(new RegExp(`^${number} `))
  })

  test('delays no request if the cluster does not respond, and drops entries above the limit', async () => {
    await client.create('shop')
    let release = () => {}
    const hanging = new Promise<void>(resolve => {
      release = resolve
    })
    client.cluster.before = (_, kind) => (kind === 'ConfigMap' ? hanging : undefined)
    const flushing = client.auditRecorder.flush()
    for (let number = 0; number < 590; number++) client.auditRecorder.write(entry(number))
    for (let number = 0; number < 10; number++) await attempt(client, `n${number}`)
    expect(await dropped()).toBe(101)
    expect(warnings('are dropped')).toHaveLength(1)
    client.cluster.before = undefined
    release()
    await flushing
    while (client.auditRecorder.waiting('acme').length > 0) await client.auditRecorder.flush()
    expect(await read(other, '?limit=200')).toHaveLength(200)
  })

  test('stores the last entries although another replica writes, and after those that cannot be stored', async () => {
    await client.create('shop')
    await client.auditRecorder.flush()
    for (let number = 0; number < 45; number++)
      client.auditRecorder.write({ ...entry(number), tenant: `none-${number}` })
    await attempt(client, 'last')
    let conflicts = 2
    client.cluster.before = (operation, kind) => {
      if (kind === 'ConfigMap' && operation === 'replace' && conflicts-- > 0)
        throw new ClusterError('Conflict', 'another replica has written')
    }
    await client.auditRecorder.stop()
    expect(requestIds(await read(other))).toContain('last')
    expect(await dropped()).toBe(45)
  })

  test('stops in time, although the cluster does not respond', async () => {
    await client.create('shop')
    client.cluster.before = (_, kind) => (kind === 'ConfigMap' ? new Promise(() => {}) : undefined)
    void client.auditRecorder.flush()
    await client.auditRecorder.stop()
    expect(await dropped()).toBe(1)
    client.cluster.before = undefined
  })

  test('has place for every account, however many others fill it', async () => {
    for (let tenant = 0; tenant < 50; tenant++)
      for (let number = 0; number < 500; number++)
        client.auditRecorder.write({ ...entry(number), tenant: `none-${tenant}` })
    await attempt(client, 'mine')
    expect(requestIds(await read(client))).toEqual(['mine'])
  })

  test('drops entries of an account without a namespace after ten minutes', async () => {
    const claims = { tenant: 'nobody', exp: always }
    await attempt(client, 'refused', claims)
    await client.auditRecorder.flush()
    expect(requestIds(await read(client, '', claims))).toEqual(['refused'])
    client.now.ms = 11 * 60_000
    await client.auditRecorder.flush()
    expect(await read(client, '', claims)).toEqual([])
    expect(await dropped()).toBe(1)
  })

  test('works without the view if the cluster refuses it, and reports that once', async () => {
    await client.create('shop')
    client.cluster.before = (operation, kind) => {
      if (kind === 'ConfigMap' && operation === 'create')
        throw new ClusterError('Invalid', 'ValidatingAdmissionPolicy espalier-api-writes denied request')
    }
    for (let pass = 0; pass < 3; pass++) {
      expect((await attempt(client, `n${pass}`)).status).toBe(400)
      await client.auditRecorder.flush()
    }
    expect(warnings('upgrade the chart')).toHaveLength(1)
    expectError(await client.call('GET', '/audit'), 503, /^the cluster refuses audit entries/)
    client.cluster.before = undefined
    await client.auditRecorder.flush()
    expect(await read(other)).toHaveLength(4)
  })
})
