/**
 * What other clients of the cluster do to the services' objects: they delete, scale and label them, add finalizers, and
 * refuse and change writes.
 */
import { afterEach, describe, expect, test } from 'vitest'
import type { Cluster, Deployment, Draft, KindName } from '../../cluster/index.ts'
import { childNames, labels, type ManagedDatabase, type ServiceConfig, systemNamespace } from '../../crds/index.ts'
import { httpRouteName } from '../../routes/route.ts'
import { hasCondition, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually, testConfiguration, testNamespace } from '../testing/installation.ts'
import { serviceSettings } from './settings.ts'

type Webhook = (draft: Draft<'Deployment'>) => Draft<'Deployment'>
const unchanged: Webhook = draft => draft
let webhook = unchanged
let applied = 0

/** An API server with a webhook that changes Deployments when they are written. */
const wrap = (inner: Cluster): Cluster => ({
  ...inner,
  apply: (kind, draft) => {
    if (kind !== 'Deployment') return inner.apply(kind, draft)
    applied++
    return inner.apply(kind, webhook(draft as Draft<'Deployment'>) as typeof draft) // of that kind
  },
})
const images = { ...testConfiguration.images, services: 'espalier' }
const services = serviceSettings.parse({ replicas: { rest: 2 } })
const it = useInstallation({ configuration: { images, services }, wrap })

const rest: ServiceConfig = {
  ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist: { rules: [{ cidr: '203.0.113.0/24' }] } },
  rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', dbPool: 10, maxRows: 1000 },
}
const runs = ({ status }: ManagedDatabase) =>
  status?.phase === 'available' && status.operation === undefined && status.services?.[0]?.state === 'running'
const request = async (name: string): Promise<{ id: string; workload: string }> => {
  await it.cluster().create('ManagedDatabase', databaseDraft(name, { services: [rest] }))
  await it.when(name, runs)
  const id = await it.idOf(name)
  return { id, workload: (await deploymentOf(id))?.metadata.name ?? '' }
}
const deploymentOf = async (id: string): Promise<Deployment | undefined> =>
  (await it.cluster().list('Deployment', { labels: { [labels.database]: id } })).items[0]
const otherClient = () => it.installation().store.connect('another-client')
/** Waits until the operator has planned once more. */
const anotherPass = async (name: string) => {
  await editSpec(it.cluster(), name, spec => ({ ...spec, displayName: `${spec.displayName ?? ''}x` }))
  const { metadata } = await it.when(name, found => found.metadata.generation === found.status?.observedGeneration)
  await it.when(name, found => found.metadata.generation === metadata.generation && runs(found))
}
const quota = (hard: Record<string, string>) =>
  it.cluster().create('ResourceQuota', {
    ...{ apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'small', namespace: testNamespace } },
    spec: { hard },
  })

afterEach(async () => {
  webhook = unchanged
  await it.cluster().delete('ResourceQuota', { namespace: testNamespace, name: 'small' })
})

describe('an object of a service that is deleted', () => {
  const address = (id: string) => childNames.serviceAddress(id, 'rest')
  const deleted: [KindName, (id: string, workload: string, domain: string) => { namespace: string; name: string }][] = [
    ['Deployment', (_, name) => ({ namespace: testNamespace, name })],
    ['Service', id => ({ namespace: testNamespace, name: address(id) })],
    ['NetworkPolicy', id => ({ namespace: testNamespace, name: address(id) })],
    ['PodDisruptionBudget', id => ({ namespace: testNamespace, name: address(id) })],
    ['ConfigMap', (_id, _name, domain) => ({ namespace: systemNamespace, name: httpRouteName(domain) })],
    ['Secret', (_, name) => ({ namespace: testNamespace, name })],
  ]
  test.each(deleted)('is created again: %s', async (kind, keyOf) => {
    const name = `without${kind.toLowerCase()}`
    const { id, workload } = await request(name)
    const key = keyOf(id, workload, (await it.database(name))?.status?.domain ?? '')
    const before = await it.cluster().get(kind, key)
    await otherClient().delete(kind, key)
    await eventually(
      async () => (await it.cluster().get(kind, key))?.metadata.uid,
      uid => uid !== undefined && uid !== before?.metadata.uid,
    )
    await it.when(name, runs)
  })
})

describe('a Deployment of a service', () => {
  test('that an autoscaler scales repeatedly is reported with the field and its manager', async () => {
    const { id, workload } = await request('scaled')
    const scale = async (replicas: number) => {
      const found = await deploymentOf(id)
      if (found?.spec === undefined || found.spec.replicas === replicas) return
      await otherClient()
        .replace('Deployment', { ...found, spec: { ...found.spec, replicas } })
        .catch(() => undefined)
    }
    const reported = await eventually(
      async () => {
        await scale(3)
        return (await it.database('scaled'))?.status?.conditions?.find(({ type }) => type === 'ChildrenApplied')
      },
      condition => condition?.reason === 'FieldContested',
    )
    expect(reported?.message).toContain(`Deployment ${workload}: spec.replicas was changed`)
    expect(reported?.message).toContain('another-client')
  })

  test('keeps labels and annotations of other tools, and is not written again because of them', async () => {
    const { id } = await request('labelled')
    const foreignEntries = { 'argocd.argoproj.io/instance': 'shop' }
    const found = await deploymentOf(id)
    if (found === undefined) throw new Error('there is no Deployment')
    const { metadata } = found
    await otherClient().replace('Deployment', {
      ...found,
      metadata: {
        ...metadata,
        labels: { ...metadata.labels, ...foreignEntries },
        annotations: { ...metadata.annotations, ...foreignEntries },
      },
    })
    const before = applied
    await anotherPass('labelled')
    expect(applied).toBe(before)
    expect((await deploymentOf(id))?.metadata).toMatchObject({ labels: foreignEntries, annotations: foreignEntries })
  })

  test('that a webhook completes is applied once, and its pods are not replaced', async () => {
    webhook = draft => {
      const { template, ...spec } = draft.spec ?? {}
      const pod = template?.spec
      const added = {
        ...{ tolerations: [{ key: 'spot', operator: 'Exists' }], hostAliases: [{ ip: '10.0.0.9' }] },
        containers: [...(pod?.containers ?? []), { name: 'proxy', image: 'proxy' }],
      }
      const metadata = { ...template?.metadata, annotations: { 'example.com/injected': 'true' } }
      return {
        ...draft,
        spec: { ...spec, template: { ...template, metadata, spec: { ...pod, ...added } } },
      } as typeof draft
    }
    const { id } = await request('completed')
    const [before, count] = [await deploymentOf(id), applied]
    await anotherPass('completed')
    expect(applied).toBe(count)
    expect((await deploymentOf(id))?.metadata.generation).toBe(before?.metadata.generation)
  })

  test('that a webhook changes each time is reported, and is not written repeatedly', async () => {
    webhook = draft => JSON.parse(JSON.stringify(draft).replaceAll('"image":"espalier"', '"image":"mirror/espalier"'))
    const { id } = await request('mirrored')
    for (let pass = 0; pass < 5; pass++) await anotherPass('mirrored')
    const found = await it.when('mirrored', hasCondition('ChildrenApplied', 'FieldContested'))
    expect(found.status?.conditions?.find(({ type }) => type === 'ChildrenApplied')?.message).toContain('image')
    const count = applied
    await anotherPass('mirrored')
    expect(applied).toBe(count)
    expect((await deploymentOf(id))?.metadata.generation).toBe(1)
  })

  test('that a quota refuses is reported, and created once the quota admits it', async () => {
    await quota({ 'count/deployments.apps': '0' })
    await it.cluster().create('ManagedDatabase', databaseDraft('refused', { services: [rest] }))
    const isReported = ({ status }: ManagedDatabase) =>
      status?.conditions?.some(
        ({ status, message }) => status !== 'Unknown' && message.includes('exceeded quota: small'),
      ) === true
    await it.when('refused', isReported)
    await it.cluster().delete('ResourceQuota', { namespace: testNamespace, name: 'small' })
    expect(isReported(await it.when('refused', runs))).toBe(false)
  })

  test('whose pods a quota refuses starts once the quota admits them', async () => {
    const { items } = await it.cluster().list('Pod', { namespace: testNamespace })
    await quota({ pods: `${items.length + 2}` })
    await it.cluster().create('ManagedDatabase', databaseDraft('crowded', { services: [rest] }))
    await it.when(
      'crowded',
      ({ status }) => status?.conditions?.some(({ message }) => message === 'rest: starting') === true,
    )
    const failure = await eventually(
      async () => (await deploymentOf(await it.idOf('crowded')))?.status?.conditions?.[0],
      condition => condition?.type === 'ReplicaFailure',
    )
    expect(failure?.message).toContain('exceeded quota: small')
    await it.cluster().delete('ResourceQuota', { namespace: testNamespace, name: 'small' })
    await it.when('crowded', runs)
  })
})

describe('a deletion of the database', () => {
  test("names other clients' finalizers that block a Deployment, and ends when they are removed", async () => {
    const { id, workload } = await request('held')
    const found = await deploymentOf(id)
    if (found === undefined) throw new Error('there is no Deployment')
    const finalizers = ['example.com/held']
    await otherClient().replace('Deployment', { ...found, metadata: { ...found.metadata, finalizers } })
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'held' })
    const message = `Deployment ${workload} waits for its finalizers: example.com/held`
    await it.when('held', ({ status }) => status?.conditions?.some(one => one.message.includes(message)) === true)
    const blocked = await deploymentOf(id)
    if (blocked !== undefined)
      await otherClient().replace('Deployment', { ...blocked, metadata: { ...blocked.metadata, finalizers: [] } })
    await it.untilDeleted('held')
  })

  test('deletes a pod that its Deployment released after a change of its labels', async () => {
    const { id, workload } = await request('quarantined')
    const key = { namespace: testNamespace, name: `${workload}-0` }
    const pod = await it.cluster().get('Pod', key)
    if (pod?.spec === undefined) throw new Error('there is no pod')
    const copiedLabels = [labels.managedBy, labels.component]
    await otherClient().create('Pod', {
      ...{ apiVersion: 'v1', kind: 'Pod', spec: pod.spec },
      metadata: {
        ...{ namespace: testNamespace, name: 'quarantined-pod' },
        labels: {
          ...{ [labels.database]: id, [labels.service]: 'rest', [labels.configuration]: 'quarantine' },
          ...Object.fromEntries(copiedLabels.map(label => [label, pod.metadata.labels?.[label] ?? ''])),
        },
      },
    })
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'quarantined' })
    await it.untilDeleted('quarantined')
    const { items } = await it.cluster().list('Pod', { labels: { [labels.database]: id } })
    expect(items).toEqual([])
  })
})
