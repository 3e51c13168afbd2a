import { describe, expect, test } from 'vitest'
import { isClusterError } from '../../cluster/index.ts'
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

  test('has its namespace corrected when another client removes labels from it', async () => {
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

  const quotaOf = (id: string) =>
    it.cluster().get('ResourceQuota', { namespace: tenantNamespace(id), name: 'espalier-limits' })
  const hard = 'count/manageddatabases.espalier.dev'
  const inNamespaceOf = (id: string, name: string) => {
    const draft = databaseDraft(name)
    return { ...draft, metadata: { ...draft.metadata, namespace: tenantNamespace(id) } }
  }
  const withLimit = async (id: string, databases: number) => {
    for (;;) {
      const tenant = await get(id)
      if (tenant === undefined) throw new Error('no tenant')
      const limits = { ...tenant.spec.limits, databases }
      const written = await it
        .cluster()
        .replace('Tenant', { ...tenant, spec: { ...tenant.spec, limits } })
        .catch((error: unknown) => {
          if (!isClusterError(error, 'Conflict')) throw error
        })
      if (written !== undefined) return
    }
  }

  test('has a quota that follows its limit, and also limits kubectl', async () => {
    const { spec, ...draft } = tenantDraft('limited')
    await it.cluster().create('Tenant', { ...draft, spec: { ...spec, tenantId: 'limited', limits: { databases: 1 } } })
    // The quota exists before the tenant is reported as ready.
    await eventually(() => get('limited'), ready)
    expect((await quotaOf('limited'))?.spec?.hard).toEqual({ [hard]: '1' })
    await it.cluster().create('ManagedDatabase', inNamespaceOf('limited', 'one'))
    await expect(it.cluster().create('ManagedDatabase', inNamespaceOf('limited', 'two'))).rejects.toThrow(
      /exceeded quota: espalier-limits/,
    )
    await withLimit('limited', 2000)
    await eventually(
      () => quotaOf('limited'),
      quota => quota?.spec?.hard?.[hard] === '2k',
    )
    await it.cluster().create('ManagedDatabase', inNamespaceOf('limited', 'two'))

    // Another client deletes the quota. The operator creates it again.
    const quota = await quotaOf('limited')
    await it.cluster().delete('ResourceQuota', { namespace: tenantNamespace('limited'), name: 'espalier-limits' })
    await eventually(
      () => quotaOf('limited'),
      found => found !== undefined && found.metadata.uid !== quota?.metadata.uid,
    )
  })

  test('with a foreign quota of the same name keeps that quota and reports it', async () => {
    await it.cluster().create('Tenant', tenantDraft('foreign'))
    await eventually(() => get('foreign'), ready)
    const namespace = tenantNamespace('foreign')
    const foreign = { apiVersion: 'v1', kind: 'ResourceQuota', spec: { hard: { pods: '3' } } } as const
    await it.cluster().create('ResourceQuota', { ...foreign, metadata: { namespace, name: 'theirs' } })
    await it.stopOperator()
    await it.cluster().delete('ResourceQuota', { namespace, name: 'espalier-limits' })
    await it.cluster().create('ResourceQuota', { ...foreign, metadata: { namespace, name: 'espalier-limits' } })
    await it.startOperator()
    const reported = await eventually(
      () => get('foreign'),
      tenant => tenant?.status?.conditions?.some(({ type }) => type === 'LimitsEnforced') === true,
    )
    expect(reported?.status).toMatchObject({
      phase: 'ready',
      conditions: [{ type: 'Ready' }, { type: 'LimitsEnforced', status: 'False', reason: 'QuotaOfAnother' }],
    })
    for (const name of ['theirs', 'espalier-limits'])
      expect((await it.cluster().get('ResourceQuota', { namespace, name }))?.spec).toEqual({ hard: { pods: '3' } })
  })

  test('records when its limit of branches changed; a database records when kubectl changed what users see', async () => {
    await it.cluster().create('Tenant', tenantDraft('noted'))
    const before = await eventually(() => get('noted'), ready)
    expect(before?.status?.branches).toEqual({})
    for (;;) {
      const tenant = await get('noted')
      if (tenant === undefined) throw new Error('no tenant')
      const limits = { ...tenant.spec.limits, branchesPerDatabase: 3 }
      const written = await it
        .cluster()
        .replace('Tenant', { ...tenant, spec: { ...tenant.spec, limits } })
        .catch((error: unknown) => {
          if (!isClusterError(error, 'Conflict')) throw error
        })
      if (written !== undefined) break
    }
    const after = await eventually(
      () => get('noted'),
      tenant => tenant?.status?.branches?.limit === 3,
    )
    expect(after?.status?.branches?.since).toMatch(/^2.*\.\d{3}Z$/)

    const namespace = tenantNamespace('noted')
    const draft = databaseDraft('noted')
    await it.cluster().create('ManagedDatabase', { ...draft, metadata: { ...draft.metadata, namespace } })
    const read = () => it.cluster().get('ManagedDatabase', { namespace, name: 'noted' })
    const made = await eventually(read, found => found?.status?.phase === 'available')
    const { updatedAt = '' } = made?.status ?? {}
    for (;;) {
      const found = await read()
      if (found === undefined) throw new Error('no database')
      const spec = { ...found.spec, displayName: 'By kubectl' }
      const written = await it
        .cluster()
        .replace('ManagedDatabase', { ...found, spec })
        .catch((error: unknown) => {
          if (!isClusterError(error, 'Conflict')) throw error
        })
      if (written !== undefined) break
    }
    await eventually(read, found => (found?.status?.updatedAt ?? '') > updatedAt)
  })

  test('is deleted with its namespace after its last database', async () => {
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

  test('whose name does not match its tenantId is refused', async () => {
    const spec = tenantDraft('misnamed').spec
    await it
      .cluster()
      .create('Tenant', { apiVersion, kind: 'Tenant', metadata: { name: 'misnamed' }, ...(spec && { spec }) })
    const reported = await eventually(
      () => it.cluster().get('Tenant', { name: 'misnamed' }),
      found => found?.status?.conditions !== undefined,
    )
    expect(reported?.status?.conditions?.[0]).toMatchObject({ reason: 'WrongName', status: 'False' })
    expect(await it.cluster().get('Namespace', { name: tenantNamespace('misnamed') })).toBeUndefined()
  })
})
