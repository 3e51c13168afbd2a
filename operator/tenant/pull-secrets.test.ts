import { beforeAll, describe, expect, test } from 'vitest'
import { systemNamespace, tenantName, tenantNamespace } from '../../crds/index.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, tenantDraft, testConfiguration } from '../testing/installation.ts'

const pulling = (...names: string[]) => ({
  configuration: { pods: { ...testConfiguration.pods, imagePullSecrets: names.map(name => ({ name })) } },
})
const it = useInstallation(pulling('registry', 'second'))
const dataOf = (text: string) => ({ '.dockerconfigjson': Buffer.from(text).toString('base64') })
const type = 'kubernetes.io/dockerconfigjson'

const give = (namespace: string, name: string, text: string) =>
  it.cluster().create('Secret', {
    apiVersion: 'v1',
    kind: 'Secret',
    type,
    metadata: { namespace, name },
    data: dataOf(text),
  })
const inTenant = (tenant: string, name: string) =>
  it.cluster().get('Secret', { namespace: tenantNamespace(tenant), name })
const containsText = (tenant: string, name: string, text: string) =>
  eventually(
    () => inTenant(tenant, name),
    found => found?.data?.['.dockerconfigjson'] === dataOf(text)['.dockerconfigjson'],
  )
const tenant = async (id: string) => {
  await it.cluster().create('Tenant', tenantDraft(id))
  await eventually(
    () => it.cluster().get('Tenant', { name: tenantName(id) }),
    found => found?.status?.phase === 'ready',
  )
}

describe('a pull Secret', () => {
  beforeAll(async () => {
    await give(systemNamespace, 'registry', 'first')
    await tenant('pulls')
  })

  test("is copied into a tenant's namespace", async () => {
    expect(await containsText('pulls', 'registry', 'first')).toMatchObject({ type })
  })

  test('changes when its source changes', async () => {
    const key = { namespace: systemNamespace, name: 'registry' }
    const source = await it.cluster().get('Secret', key)
    if (source === undefined) throw new Error('no source')
    await it.cluster().replace('Secret', { ...source, data: dataOf('rotated') })
    await containsText('pulls', 'registry', 'rotated')
  })

  test('that is created later is copied', async () => {
    expect(await inTenant('pulls', 'second')).toBeUndefined()
    await give(systemNamespace, 'second', 'late')
    await containsText('pulls', 'second', 'late')
  })

  test('with the same name that the tenant created is not replaced', async () => {
    const namespace = tenantNamespace('owns')
    await it.cluster().create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    await give(namespace, 'registry', 'theirs')
    await tenant('owns')
    await containsText('owns', 'second', 'late')
    await containsText('owns', 'registry', 'theirs')
  })

  test('that is no longer configured is deleted, and no other Secret', async () => {
    await it.stopOperator()
    await it.startOperator(pulling('second'))
    await eventually(
      () => inTenant('pulls', 'registry'),
      found => found === undefined,
    )
    await containsText('owns', 'registry', 'theirs')
    await it.stopOperator()
    await it.startOperator({})
    await eventually(
      () => inTenant('pulls', 'second'),
      found => found === undefined,
    )
  })
})
