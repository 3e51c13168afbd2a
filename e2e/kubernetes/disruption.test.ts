/**
 * Disruptions by a cluster: processes are killed, moved, and disconnected from the API server. Each operation still
 * ends as requested, exactly once, and no Postgres is restarted because of it.
 */
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { childNames, labels, type ManagedDatabase, systemNamespace } from '../../crds/index.ts'
import { connect, type Database, eventually, openTo, query, sqlState } from '../client.ts'
import { minutes, type Serving, startServing } from './serving.ts'

let it: Serving

beforeAll(async () => {
  it = await startServing('disruption', 'steady')
  await query(await it.api.connection(it.database.id), 'CREATE TABLE kept AS SELECT 42 AS n')
}, minutes(4))
afterAll(() => it?.stop(), minutes(3))

const resource = async (name = 'steady'): Promise<ManagedDatabase | undefined> =>
  it.provider.cluster.get('ManagedDatabase', { namespace: it.namespace, name })
const reconciled = (id: string) =>
  eventually('the database is available', async () => (await it.api.read(id)).body.status === 'available', minutes(3))
const serves = async () => {
  const rows = await query(await it.api.connection(it.database.id), 'SELECT n FROM kept')
  expect(rows).toEqual([{ n: 42 }])
}
const postmaster = async () => (await it.provider.postmaster(it.namespace, it.database.id)).id

const operators = async () => {
  const { items } = await it.provider.cluster.list('Pod', {
    namespace: systemNamespace,
    labels: { 'app.kubernetes.io/component': 'operator' },
  })
  return items.filter(pod => pod.metadata.deletionTimestamp === undefined).map(pod => pod.metadata.name)
}
const leader = async (): Promise<string> => {
  const lease = await it.provider.cluster.get('Lease', { namespace: systemNamespace, name: 'espalier-operator' })
  // The holder's identity consists of the pod and one of its runs.
  return lease?.spec?.holderIdentity?.split('_')[0] ?? ''
}
/** Kills at once and silently, as a failing machine would. */
const kill = (pods: string[]) =>
  it.provider.kubectl(['delete', 'pod', '-n', systemNamespace, '--grace-period=0', '--force', ...pods])

describe('the operator is killed', () => {
  const patched = { rules: [{ cidr: '198.51.100.0/24' }] }
  const operations: [string, (name: string) => Promise<void>][] = [
    [
      'create',
      async name => {
        const { body } = await it.api.create({ name, pg_version: '17' }, {})
        await kill(await operators())
        await reconciled(body.id)
      },
    ],
    [
      'an allowlist change',
      async name => {
        const { id } = await find(name)
        await it.api.change(id, { ip_allowlist: patched }, {})
        await kill(await operators())
        await reconciled(id)
        expect((await it.api.read(id)).body.ip_allowlist.rules).toEqual(patched.rules)
      },
    ],
    [
      'suspend and resume',
      async name => {
        for (const [suspended, phase] of [
          [true, 'suspended'],
          [false, 'available'],
        ] as const) {
          const patch = JSON.stringify({ spec: { suspended } })
          await it.provider.kubectl(['patch', 'mdb', name, '-n', it.namespace, '--type=merge', '-p', patch])
          await kill(await operators())
          await eventually(phase, async () => (await resource(name))?.status?.phase === phase, minutes(3))
        }
      },
    ],
    [
      'delete',
      async name => {
        const { id } = await find(name)
        await it.provider.kubectl(['delete', 'mdb', name, '-n', it.namespace, '--wait=false'])
        await kill(await operators())
        await eventually('the database is deleted', async () => (await resource(name)) === undefined, minutes(3))
        expect(
          await it.provider.cluster.get('PersistentVolumeClaim', {
            namespace: it.namespace,
            name: childNames.claim(id, 1),
          }),
        ).toBe(undefined)
      },
    ],
  ]
  const find = async (name: string): Promise<Database> => {
    const { body } = await it.api.call<Database[]>('GET', '/databases')
    const found = body.find(each => each.name === name)
    if (found === undefined) throw new Error(`no database ${name}`)
    return found
  }

  test.each(operations)(
    'during %s',
    async (_, operate) => {
      await operate('tossed')
      await serves()
    },
    minutes(5),
  )

  test(
    'the leader is killed: the other replica takes over, and no Postgres restarts',
    async () => {
      const before = await postmaster()
      const led = await leader()
      expect(await operators()).toContain(led)
      await kill([led])
      const changed = await it.api.change(it.database.id, { display_name: 'led again' }, {})
      expect(changed.status).toBe(200)
      await eventually(
        'another replica of the operator is the leader',
        async () => ![led, ''].includes(await leader()),
        minutes(1),
      )
      await it.api.change(it.database.id, { ip_allowlist: { rules: [] } })
      expect(await sqlState(async () => connect(await it.api.connection(it.database.id)))).toBe('28000')
      await it.api.change(it.database.id, { ip_allowlist: openTo(it.provider.clientAddress) })
      await serves()
      expect(await postmaster()).toBe(before)
    },
    minutes(4),
  )
})

test(
  'an API server that is down for a minute: databases and the gateway continue, and no operation runs twice',
  async () => {
    const before = await postmaster()
    const connection = await it.api.connection(it.database.id)
    const session = await connect(connection)
    const start = await it.provider.stopApiServer()
    const end = Date.now() + minutes(1)
    let answered = 0
    while (Date.now() < end) {
      await session.query('SELECT 1')
      await query(connection, 'SELECT 1')
      answered++
      await sleep(randomInt(200, 1_000))
    }
    await start()
    expect(answered).toBeGreaterThan(20)
    await session.end()

    const { body } = await eventually(
      'the API answers again',
      async () => {
        // A kept-alive connection may be closed now. Repeats the request with the same key, as a client should.
        const headers = { prefer: 'wait=60', 'idempotency-key': 'afterwards' }
        const answer = await it.api.create({ name: 'afterwards', pg_version: '17' }, headers).catch(() => undefined)
        return answer?.status === 200 && answer
      },
      minutes(3),
    )
    await reconciled(body.id)
    await it.api.remove(body.id)
    await serves()
    expect(await postmaster()).toBe(before)
  },
  minutes(8),
)

test(
  'the node is drained and uncordoned: the data are served again',
  async () => {
    const selector = `${labels.database}=${it.database.id}`
    await it.provider.kubectl(['cordon', it.provider.nodeName])
    try {
      await it.provider.kubectl([
        'drain',
        it.provider.nodeName,
        '--ignore-daemonsets',
        '--delete-emptydir-data',
        `--pod-selector=${selector}`,
        '--timeout=150s',
      ])
      await eventually(
        'the database is not available',
        async () => (await it.api.read(it.database.id)).body.status !== 'available',
      )
      // The scheduler's reason appears once the replacement of the evicted pod has been created and every node has
      // refused it.
      await eventually('the condition Ready reports that the pod cannot be scheduled', async () => {
        const ready = (await resource())?.status?.conditions?.find(each => each.type === 'Ready')
        if (ready?.status === 'False' && /unschedulable|cordon|node/i.test(ready.message)) return true
        throw new Error(JSON.stringify(ready))
      })
    } finally {
      await it.provider.kubectl(['uncordon', it.provider.nodeName])
    }
    await reconciled(it.database.id)
    await serves()
  },
  minutes(6),
)

test(
  'if a node is silent, the status says what to do, no replacement is started, and the database serves again when the node reports again',
  async () => {
    const before = await postmaster()
    const selector = { namespace: it.namespace, labels: { [labels.database]: it.database.id } }
    const pods = async () => (await it.provider.cluster.list('Pod', selector)).items.map(pod => pod.metadata.uid)
    const uids = await pods()
    const speak = await it.provider.silenceNode()
    try {
      const ready = await eventually(
        'the database reports the reason NodeLost',
        async () => (await resource())?.status?.conditions?.find(each => each.reason === 'NodeLost'),
        minutes(3),
      )
      expect(ready).toMatchObject({ type: 'Ready', status: 'False' })
      expect(ready.message).toContain(`kubectl taint nodes ${it.provider.nodeName} node.kubernetes.io/out-of-service`)
      expect(await pods()).toEqual(uids)
    } finally {
      await speak()
    }
    await eventually(
      'the database is available',
      async () => (await resource())?.status?.phase === 'available',
      minutes(3),
    )
    await reconciled(it.database.id)
    // The node updates its routes to Services shortly after it reports again. Until then, the routes do not work.
    await eventually('the database serves clients', () => serves().then(() => true))
    expect(await postmaster()).toBe(before)
    expect(await pods()).toEqual(uids)
  },
  minutes(8),
)
