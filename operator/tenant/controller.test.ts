import { describe, expect, test } from 'vitest'
import { apiVersion, labels, type Tenant, tenantHash, tenantName, tenantNamespace } from '../../crds/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, tenantDraft } from '../testing/installation.ts'

const it = useInstallation()
const get = (id: string) => it.cluster().get('Tenant', { name: tenantName(id) })
const ready = (tenant: Tenant | undefined) => tenant?.status?.phase === 'ready'

describe('a tenant', () => {
  test('gets a namespace in which only restricted pods may run', async () => {
    await it.cluster().create('Tenant', tenantDraft('Ünal & Söhne'))
    const tenant = await eventually(() => get('Ünal & Söhne'), ready)
    const name = tenantNamespace('Ünal & Söhne')
    expect(tenant?.status).toMatchObject({ namespace: name, conditions: [{ type: 'Ready', status: 'True' }] })
    const namespace = await it.cluster().get('Namespace', { name })
    expect(namespace?.metadata.labels).toMatchObject({
      [labels.tenant]: tenantHash('Ünal & Söhne'),
      'pod-security.kubernetes.io/enforce': 'restricted',
    })
  })

  test('keeps what its namespace was given when somebody takes it away', async () => {
    await it.cluster().create('Tenant', tenantDraft('steady'))
    await eventually(() => get('steady'), ready)
    const key = { name: tenantNamespace('steady') }
    const namespace = await it.cluster().get('Namespace', key)
    if (namespace === undefined) throw new Error('no namespace')
    const { 'pod-security.kubernetes.io/enforce': _, ...rest } = namespace.metadata.labels ?? {}
    await it.cluster().replace('Namespace', { ...namespace, metadata: { ...namespace.metadata, labels: rest } })
    await eventually(
      () => it.cluster().get('Namespace', key),
      found => found?.metadata.labels?.['pod-security.kubernetes.io/enforce'] === 'restricted',
    )
  })

  test('goes when its last database has gone, with its namespace', async () => {
    await it.cluster().create('Tenant', tenantDraft('leaving'))
    await eventually(() => get('leaving'), ready)
    const namespace = tenantNamespace('leaving')
    const draft = databaseDraft('last')
    await it.cluster().create('ManagedDatabase', { ...draft, metadata: { ...draft.metadata, namespace } })
    const database = () => it.cluster().get('ManagedDatabase', { namespace, name: 'last' })
    await eventually(database, found => found?.status?.phase === 'available')
    await it.cluster().delete('Tenant', { name: tenantName('leaving') })
    const waiting = await eventually(
      () => get('leaving'),
      found => found?.status?.conditions?.[0]?.reason === 'HasDatabases',
    )
    expect(waiting?.status?.phase).toBe('pending')
    await it.cluster().delete('ManagedDatabase', { namespace, name: 'last' })
    await eventually(database, found => found === undefined)
    await eventually(
      () => get('leaving'),
      found => found === undefined,
      { withinMs: 20_000 },
    )
    expect(await it.cluster().get('Namespace', { name: namespace })).toBeUndefined()
  })

  test('under a name that is not that of its id is refused', async () => {
    const spec = tenantDraft('misnamed').spec
    await it
      .cluster()
      .create('Tenant', { apiVersion, kind: 'Tenant', metadata: { name: 'misnamed' }, ...(spec && { spec }) })
    const told = await eventually(
      () => it.cluster().get('Tenant', { name: 'misnamed' }),
      found => found?.status?.conditions !== undefined,
    )
    expect(told?.status?.conditions?.[0]).toMatchObject({ reason: 'WrongName', status: 'False' })
    expect(await it.cluster().get('Namespace', { name: tenantNamespace('misnamed') })).toBeUndefined()
  })
})
