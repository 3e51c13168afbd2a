/** Services of databases: from the spec to Deployments, Services and routes, and back to the status. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import type { Deployment } from '../../cluster/index.ts'
import {
  childNames,
  labels,
  type ManagedDatabase,
  rotationAnnotations,
  type ServiceConfig,
  systemNamespace,
} from '../../crds/index.ts'
import { httpRouteName, readAnyRoute } from '../../routes/route.ts'
import { conditionOf } from '../objects/conditions.ts'
import { useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually, testConfiguration, testNamespace } from '../testing/installation.ts'
import { ownStateAnnotation } from './deployment.ts'
import { imageOf } from './workloads.ts'

const images = { ...testConfiguration.images, services: 'espalier' }
const it = useInstallation({ configuration: { images, pgvectorVersions: ['17'] } })

const open = { rules: [{ cidr: '203.0.113.0/24' }] }
const mcp: ServiceConfig = { serviceType: 'mcp', serviceId: '00000001', ipAllowlist: open, mcp: { allowWrites: false } }
const rest: ServiceConfig = {
  ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist: open },
  rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', dbPool: 10, maxRows: 1000 },
}

const services = () => it.deployments()
const workloads = async (id: string, type: string): Promise<Deployment[]> => {
  const selector = { [labels.database]: id, [labels.service]: type }
  return (await it.cluster().list('Deployment', { namespace: testNamespace, labels: selector })).items
}
const selectedBy = async (id: string, type: string) => {
  const key = { namespace: testNamespace, name: childNames.serviceAddress(id, type) }
  return (await it.cluster().get('Service', key))?.spec?.selector?.[labels.configuration]
}
const statesOf = ({ status }: ManagedDatabase) =>
  Object.fromEntries((status?.services ?? []).map(({ serviceType, state }) => [serviceType, state]))
const isAvailable = ({ status }: ManagedDatabase) => status?.phase === 'available' && status.operation === undefined
const request = async (name: string, list: ServiceConfig[]): Promise<string> => {
  await it.cluster().create('ManagedDatabase', databaseDraft(name, { services: list }))
  await it.when(name, isAvailable)
  return it.idOf(name)
}
const change = (name: string, list: ServiceConfig[]) =>
  editSpec(it.cluster(), name, spec => ({ ...spec, services: list }))
const writing: ServiceConfig = { ...mcp, mcp: { allowWrites: true } }

afterEach(() => {
  for (const type of ['mcp', 'rest', 'rag']) services().behave(type, 'ready', { all: true })
})

/** The marker file on the volume of a database. */
async function dataOf(id: string) {
  const key = { namespace: testNamespace, name: childNames.claim(id, 1) }
  const volume = (await it.cluster().get('PersistentVolumeClaim', key))?.spec?.volumeName ?? ''
  const all = [...it.workload().postgres.data]
  const found = all.find(([handle]) => handle.includes(volume))?.[1] ?? all.at(-1)?.[1]
  if (found === undefined) throw new Error(`no data of ${id}`)
  return found
}

describe('a database with services', () => {
  test('is available when they run, and its route points to them', async () => {
    const id = await request('served', [mcp, rest])
    const database = await it.when('served', isAvailable)
    expect(database.status?.services).toEqual([
      {
        serviceType: 'mcp',
        serviceId: '00000001',
        state: 'running',
        port: 8080,
        uri: expect.stringMatching(/^https:\/\/served-[0-9a-f]{8}\.db\.test\/mcp$/),
      },
      {
        serviceType: 'rest',
        serviceId: '00000002',
        state: 'running',
        port: 3000,
        uri: expect.stringMatching(/\/rest$/),
      },
    ])
    expect(conditionOf(database.status, 'ServicesReady')).toMatchObject({ status: 'True', reason: 'Running' })
    const [found] = await workloads(id, 'mcp')
    expect(await selectedBy(id, 'mcp')).toBe(found?.metadata.labels?.[labels.configuration])
    const secret = await it.cluster().get('Secret', { namespace: testNamespace, name: found?.metadata.name ?? '' })
    expect(secret).toMatchObject({ immutable: true })
    const map = await it.cluster().get('ConfigMap', {
      namespace: systemNamespace,
      name: httpRouteName(database.status?.domain ?? ''),
    })
    const read = map && readAnyRoute(map)
    expect(read?.problem).toBeUndefined()
    expect(read).toMatchObject({
      kind: 'http',
      route: { services: [{ service: 'mcp', bridgePort: 8090, rules: ['203.0.113.0/24'] }, { service: 'rest' }] },
    })
    expect(JSON.stringify(read)).not.toContain('unavailable')
  })

  test('is not available before they run', async () => {
    services().behave('mcp', 'starting')
    await it.cluster().create('ManagedDatabase', databaseDraft('slow', { services: [mcp] }))
    const waiting = await it.when('slow', ({ status }) => conditionOf(status, 'Ready')?.status === 'True')
    expect(waiting.status?.phase).toBe('creating')
    expect(statesOf(waiting)).toEqual({ mcp: 'pending' })
    services().behave('mcp', 'ready', { all: true })
    expect(statesOf(await it.when('slow', isAvailable))).toEqual({ mcp: 'running' })
  })

  test('keeps the old workload selected until the new ones of all services are ready', async () => {
    const id = await request('changed', [mcp, rest])
    const before = { mcp: await selectedBy(id, 'mcp'), rest: await selectedBy(id, 'rest') }
    services().behave('mcp', 'starting')
    await change('changed', [writing, { ...rest, rest: { ...rest.rest, maxRows: 5 } as never }])
    await eventually(
      async () => (await workloads(id, 'rest')).filter(({ status }) => status?.readyReplicas === 1).length,
      count => count === 2,
    )
    await it.when('changed', ({ status }) => status?.phase === 'modifying')
    expect({ mcp: await selectedBy(id, 'mcp'), rest: await selectedBy(id, 'rest') }).toEqual(before)
    services().behave('mcp', 'ready', { all: true })
    await it.when('changed', isAvailable)
    expect(await selectedBy(id, 'mcp')).not.toBe(before.mcp)
    expect(await selectedBy(id, 'rest')).not.toBe(before.rest)
    expect(await workloads(id, 'mcp')).toHaveLength(2)
  })

  test('is degraded while a service fails, which keeps its old workload, and recovers', async () => {
    const id = await request('failing', [mcp, rest])
    const before = await selectedBy(id, 'mcp')
    services().behave('mcp', 'crashing')
    await change('failing', [writing, rest])
    const failed = await it.when('failing', ({ status }) => status?.phase === 'degraded')
    expect(statesOf(failed)).toEqual({ mcp: 'failed', rest: 'running' })
    expect(conditionOf(failed.status, 'ServicesReady')).toMatchObject({
      ...{ status: 'False', reason: 'ServiceFailed' },
      message: expect.stringContaining(
        'mcp: a container was restarted 3 times: container server: the configuration is wrong',
      ),
    })
    expect(conditionOf(failed.status, 'Progressing')?.reason).toBe('ServiceFailed')
    expect(await selectedBy(id, 'mcp')).toBe(before)
    services().behave('mcp', 'ready', { all: true })
    expect(statesOf(await it.when('failing', isAvailable))).toEqual({ mcp: 'running', rest: 'running' })
    expect(await selectedBy(id, 'mcp')).not.toBe(before)
  })

  test('reports the keys that a service lacks', async () => {
    const embedding: ServiceConfig = {
      ...mcp,
      mcp: { allowWrites: false, embeddingProvider: 'openai', embeddingModel: 'm' },
    }
    await it
      .cluster()
      .create(
        'ManagedDatabase',
        databaseDraft('keyless', { services: [{ ...embedding, secret: { name: 'nowhere' } }] }),
      )
    const found = await it.when('keyless', ({ status }) => status?.phase === 'degraded')
    expect(conditionOf(found.status, 'ServicesReady')).toMatchObject({ status: 'False', reason: 'KeysMissing' })
    expect(conditionOf(found.status, 'ServicesReady')?.message).toContain('nowhere')
    services().behave('mcp', 'starting')
    await it.cluster().create('Secret', {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'nowhere', namespace: testNamespace } },
      data: { embedding_api_key: Buffer.from('sk-1').toString('base64') },
    })
    // No cache contains the Secret. The next pass, for any reason, reads it.
    await editSpec(it.cluster(), 'keyless', spec => ({ ...spec, displayName: 'other' }))
    const starting = await it.when('keyless', database => statesOf(database).mcp === 'pending')
    expect(starting.status?.phase).toBe('degraded')
    services().behave('mcp', 'ready', { all: true })
    expect(statesOf(await it.when('keyless', isAvailable))).toEqual({ mcp: 'running' })
  })

  test('gives services new passwords before Postgres has them', async () => {
    const id = await request('rotating', [mcp])
    const before = await selectedBy(id, 'mcp')
    services().behave('mcp', 'starting')
    await editSpec(it.cluster(), 'rotating', spec => spec, { [rotationAnnotations.app_read_only]: 'now' })
    await eventually(
      () => workloads(id, 'mcp'),
      found => found.length === 2,
    )
    const key = { namespace: testNamespace, name: childNames.credentials(id) }
    expect(Object.keys((await it.cluster().get('Secret', key))?.data ?? {})).toContain('app_read_only.previous')
    services().behave('mcp', 'ready', { all: true })
    await it.when('rotating', isAvailable)
    expect(await selectedBy(id, 'mcp')).not.toBe(before)
    expect(Object.keys((await it.cluster().get('Secret', key))?.data ?? {})).not.toContain('app_read_only.previous')
    const after = await selectedBy(id, 'mcp')
    await it.when('rotating', isAvailable)
    expect(await selectedBy(id, 'mcp')).toBe(after)
  })

  test('has no workload while it is suspended, and the same tokens afterwards', async () => {
    const id = await request('resting', [mcp])
    const token = { namespace: testNamespace, name: childNames.serviceSecret(id, mcp.serviceId) }
    const before = await it.cluster().get('Secret', token)
    await editSpec(it.cluster(), 'resting', spec => ({ ...spec, suspended: true }))
    const { status } = await it.when('resting', found => found.status?.phase === 'suspended')
    expect(await workloads(id, 'mcp')).toEqual([])
    const route = { namespace: systemNamespace, name: httpRouteName(status?.domain ?? '') }
    expect((await it.cluster().get('ConfigMap', route))?.data?.['route.json']).toContain('"unavailable":"suspended"')
    await editSpec(it.cluster(), 'resting', spec => ({ ...spec, suspended: false }))
    await it.when('resting', isAvailable)
    expect(await workloads(id, 'mcp')).toHaveLength(1)
    expect(await it.cluster().get('Secret', token)).toEqual(before)
  })

  test('has no objects of services that are not requested, and none after its deletion', async () => {
    const id = await request('leaving', [mcp, rest])
    const remaining = async (): Promise<string[]> => {
      const selector = { [labels.database]: id }
      const kinds = [
        'Deployment',
        'Service',
        'Secret',
        'NetworkPolicy',
        'PodDisruptionBudget',
        'ConfigMap',
        'Pod',
      ] as const
      const found = await Promise.all(kinds.map(kind => it.cluster().list(kind, { labels: selector })))
      return found.flatMap(({ items }) => items.map(({ kind, metadata }) => `${kind} ${metadata.name}`))
    }
    await change('leaving', [mcp])
    await it.when('leaving', found => isAvailable(found) && found.status?.services?.length === 1)
    await eventually(
      async () => (await remaining()).filter(name => name.includes('rest') || name.endsWith('-s-00000002')),
      found => found.length === 0,
    )
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'leaving' })
    await it.untilDeleted('leaving')
    expect(await remaining()).toEqual([])
  })

  test('gets pods of another image from a newer operator, whatever the last observed state of Postgres', async () => {
    const id = await request('upgraded', [mcp])
    const before = await selectedBy(id, 'mcp')
    await it.stopOperator()
    await it.startOperator({ configuration: { images: { ...images, services: 'espalier:next' } } })
    await eventually(
      () => selectedBy(id, 'mcp'),
      selected => selected !== before,
    )
    await it.stopOperator()
    await it.startOperator()
    await eventually(
      () => selectedBy(id, 'mcp'),
      selected => selected === before,
    )
  })

  test('waits for a slot before it changes the image, unless a user changes the service', async () => {
    const ids = [await request('first', [mcp]), await request('second', [mcp])]
    await it.stopOperator()
    services().behave('mcp', 'starting')
    services().behave('rest', 'starting')
    const configuration = {
      ...{ images: { ...images, services: 'espalier:later' } },
      services: { ...testConfiguration.services, upgradesAtOnce: 1 },
    }
    await it.startOperator({ configuration })
    const upgraded = async () => {
      const { items } = await it
        .cluster()
        .list('Deployment', { namespace: testNamespace, labels: { [labels.service]: true } })
      const next = items.filter(found => imageOf(found) === 'espalier:later')
      return [...new Set(next.map(({ metadata }) => metadata.labels?.[labels.database] ?? ''))]
    }
    const [upgradedId = ''] = await eventually(upgraded, found => found.length > 0)
    await sleep(300)
    expect(await upgraded()).toEqual([upgradedId])
    const other = upgradedId === ids[0] ? 'second' : 'first'
    expect((await it.when(other, isAvailable)).status?.services).toMatchObject([{ state: 'running' }])
    await change(other, [writing])
    expect(await eventually(upgraded, found => found.length > 1)).toContain(await it.idOf(other))
    await it.stopOperator()
    await it.startOperator()
  })

  test('has objects created again that other clients delete', async () => {
    const id = await request('healed', [mcp])
    const [before] = await workloads(id, 'mcp')
    const key = { namespace: testNamespace, name: before?.metadata.name ?? '' }
    await it.cluster().delete('Secret', key)
    await it.cluster().delete('Deployment', key)
    await eventually(
      async () => (await workloads(id, 'mcp'))[0]?.metadata.uid,
      uid => uid !== undefined && uid !== before?.metadata.uid,
    )
    expect((await it.cluster().get('Secret', key))?.immutable).toBe(true)
  })
})

describe('the login role of rest', () => {
  test('exists before rest starts, and is locked when rest is no longer requested', async () => {
    const id = await request('entered', [rest])
    const secret = { namespace: testNamespace, name: childNames.serviceSecret(id, rest.serviceId) }
    const data = await dataOf(id)
    expect(data.authenticator).toBe((await it.cluster().get('Secret', secret))?.metadata.uid)
    await change('entered', [])
    await eventually(() => data.authenticator === undefined)
  })

  test('is granted the anonymous role; a condition reports if that role does not exist', async () => {
    const id = await request('anonymous', [mcp])
    const data = await dataOf(id)
    data.missingRoles = ['web_anon']
    await change('anonymous', [rest])
    const found = await it.when('anonymous', database => isAvailable(database) && statesOf(database).rest === 'running')
    expect(conditionOf(found.status, 'ServicesReady')).toMatchObject({ status: 'True', reason: 'AnonymousRoleMissing' })
  })
})

describe('a database object that services name', () => {
  const ragWith = (table: string): ServiceConfig => ({
    ...{ serviceType: 'rag', serviceId: '00000003', ipAllowlist: open, secret: { name: 'rag-keys' } },
    rag: {
      embeddingLlm: { provider: 'openai', model: 'text-embedding-3-small' },
      completionLlm: { provider: 'openai', model: 'm' },
      pipelines: [
        {
          ...{ name: 'docs', tables: [{ table, textColumn: 'content', vectorColumn: 'embedding', idColumn: 'id' }] },
          ...{ hybridEnabled: true, minSimilarity: 0, vectorWeight: 0.5 },
        },
      ],
      ...{ tokenBudget: 1000, topN: 10 },
    },
  })
  const configured = ({ status }: ManagedDatabase) => conditionOf(status, 'ServicesConfigured')
  const finds = (name: string, reason: string) => it.when(name, database => configured(database)?.reason === reason)

  test('is missing: a condition reports it, the service runs, and the condition ends', async () => {
    const id = await request('naming', [rest])
    expect(configured(await it.when('naming', isAvailable))).toMatchObject({ status: 'True', reason: 'Found' })
    const data = await dataOf(id)
    data.missingObjects = ['api']
    await change('naming', [{ ...rest, rest: { ...rest.rest, dbSchemas: 'public, api' } as never }])
    const found = await finds('naming', 'UnknownSchema')
    expect(configured(found)).toMatchObject({
      status: 'False',
      message: 'rest: db_schemas names the schema api, which does not exist: create it, or remove it from db_schemas',
    })
    const serving = await it.when('naming', isAvailable)
    expect(statesOf(serving)).toEqual({ rest: 'running' })
    expect(serving.status?.services).toMatchObject([
      { message: expect.stringMatching(/^db_schemas names the schema api/) },
    ])
    data.missingObjects = []
    await finds('naming', 'Found')
    await change('naming', [mcp])
    await it.when('naming', database => isAvailable(database) && configured(database) === undefined)
  })

  test('cannot exist without pgvector: the condition has the message of the API', async () => {
    await it.cluster().create('Secret', {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'rag-keys', namespace: testNamespace } },
      data: Object.fromEntries(
        ['embedding_llm_api_key', 'completion_llm_api_key'].map(field => [
          field,
          Buffer.from('sk-1').toString('base64'),
        ]),
      ),
    })
    const id = await request('vectorless', [mcp])
    const data = await dataOf(id)
    data.vector = 'absent'
    await change('vectorless', [ragWith('docs')])
    const found = await finds('vectorless', 'MissingExtension')
    expect(configured(found)?.message).toBe(
      'rag needs pgvector, which Postgres 18 does not have here; versions that have it: 17; "make pgvector" adds it',
    )
    data.vector = 'installed'
    data.missingObjects = ['docs']
    await finds('vectorless', 'UnknownTable')
    data.missingObjects = []
    await finds('vectorless', 'Found')
  })
})

describe('the storage of mcp for its conversations', () => {
  const secretOf = (id: string) =>
    it.cluster().get('Secret', { namespace: testNamespace, name: childNames.serviceState(id, mcp.serviceId) })
  const keepsOwn = ({ metadata }: Deployment) => metadata.annotations?.[ownStateAnnotation] !== undefined

  test('a separate database exists before mcp runs, and is dropped with it', async () => {
    const id = await request('conversing', [mcp])
    const secret = await secretOf(id)
    expect((await dataOf(id)).mcpState).toEqual({ owner: id, passwordVersion: secret?.metadata.uid })
    expect((await workloads(id, 'mcp')).map(keepsOwn)).toEqual([false])
    await change('conversing', [])
    await expect.poll(async () => (await dataOf(id)).mcpState, { timeout: 10_000 }).toBeUndefined()
    await expect.poll(() => secretOf(id), { timeout: 10_000 }).toBeUndefined()
    expect(await workloads(id, 'mcp')).toEqual([])
  })

  test('a name taken by a user is reported, and each pod keeps its own conversations until the name is free', async () => {
    const id = await request('taken', [])
    ;(await dataOf(id)).takesMcpState = true
    await change('taken', [mcp])
    const message = () => it.database('taken').then(found => conditionOf(found?.status, 'ServicesReady'))
    await expect.poll(message, { timeout: 10_000 }).toMatchObject({ status: 'True', reason: 'McpStateTaken' })
    expect((await workloads(id, 'mcp')).map(keepsOwn)).toEqual([true])
    expect((await dataOf(id)).mcpState).toBeUndefined()
    // A new operator does not know Postgres's answer yet, and changes nothing.
    const [before] = await workloads(id, 'mcp')
    await it.stopOperator()
    await it.startOperator()
    await it.when('taken', isAvailable)
    expect((await workloads(id, 'mcp')).map(({ metadata }) => metadata.name)).toEqual([before?.metadata.name])
    expect(await message()).toMatchObject({ status: 'True', reason: 'McpStateTaken' })
  })
})

describe('the number of pods', () => {
  const replicasOf = async (id: string) => (await workloads(id, 'rest')).map(({ spec }) => spec?.replicas)
  const budgetOf = (id: string) =>
    it.cluster().get('PodDisruptionBudget', { namespace: testNamespace, name: childNames.serviceAddress(id, 'rest') })

  test('follows the nodes, without another workload', async () => {
    const id = await request('scaled', [rest])
    const [before] = await workloads(id, 'rest')
    expect(await replicasOf(id)).toEqual([1])
    expect(await budgetOf(id)).toBeUndefined()
    for (const name of ['node-a', 'node-b']) {
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name } } as const
      const made = await it.cluster().create('Node', node)
      await it.cluster().replaceStatus('Node', { ...made, status: { conditions: [{ type: 'Ready', status: 'True' }] } })
    }
    // The operator counts nodes once a minute. A new operator counts them at once.
    await it.stopOperator()
    await it.startOperator()
    await expect.poll(() => replicasOf(id), { timeout: 10_000 }).toEqual([2])
    await expect.poll(() => budgetOf(id), { timeout: 10_000 }).toMatchObject({ spec: { maxUnavailable: 1 } })
    expect((await workloads(id, 'rest')).map(({ metadata }) => metadata.uid)).toEqual([before?.metadata.uid])
  })
})
