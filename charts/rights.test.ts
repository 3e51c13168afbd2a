/**
 * The permissions of operator and API in the chart's roles: no fewer than they need, and no more than the table lists.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Client, expectError, startClient, until } from '../api/testing/client.ts'
import { reconcile } from '../api/testing/harness.ts'
import type { Cluster } from '../cluster/index.ts'
import {
  apiVersion,
  childNames,
  labels,
  rotationAnnotations,
  systemNamespace,
  tenantHash,
  tenantName,
  tenantNamespace,
} from '../crds/index.ts'
import { bindingDrafts, databasesLabel } from '../operator/access/bindings.ts'
import type { Operator } from '../operator/index.ts'
import { branchDraft } from '../operator/testing/branches.ts'
import { isPhase } from '../operator/testing/fixture.ts'
import {
  backupDraft,
  databaseDraft,
  databaseWhen,
  editSpec,
  eventually,
  giveSnapshots,
  type Installation,
  openInstallation,
  startTestOperator,
  tenantDraft,
  testNamespace,
} from '../operator/testing/installation.ts'
import { espalierChart, minimal } from './testing/espalier.ts'
import { describeChart } from './testing/helm.ts'
import { isAllowed, type RbacObject, readRoles, withRights } from './testing/rbac.ts'
import { ofOthers, ofSystem, ofTenant, rights } from './testing/rights.ts'

const namespaceOf = { [ofTenant]: tenantNamespace('acme'), [ofOthers]: 'kube-system', [ofSystem]: systemNamespace }
const bindings = bindingDrafts(namespaceOf[ofTenant]) as RbacObject[]
const wrongBy = (roles: readonly RbacObject[]) =>
  rights
    .filter(({ namespace, isAllowed: expected, ...request }) => {
      const where = namespace && namespaceOf[namespace]
      return isAllowed([...roles, ...bindings], { ...request, namespace: where }) !== expected
    })
    .map(({ account, verb, resource, name, namespace = 'everywhere', isAllowed: expected }) =>
      [account, expected ? 'must' : 'must not', verb, resource, name ?? '', 'in', namespace].join(' '),
    )

test('operator and API may do what the table allows, and nothing that it denies', () => {
  expect(wrongBy(readRoles())).toEqual([])
})

test('the table distinguishes wider roles from these', () => {
  const wider: RbacObject = {
    kind: 'ClusterRole',
    metadata: { name: 'espalier-api' },
    rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get', 'list', 'watch'] }],
  }
  const others = readRoles().filter(({ kind, metadata }) => kind !== 'ClusterRole' || metadata.name !== 'espalier-api')
  expect(wrongBy([...others, wider])).toContain('espalier-api must not list secrets  in everywhere')
})

describeChart('the rights of chart espalier', espalierChart, chart => {
  test('the roles are equal to those that are read without Helm', () => {
    const rendered = chart.rendered(minimal)
    const find = ({ kind, metadata }: RbacObject) =>
      rendered.find(
        other =>
          other.kind === kind &&
          other.metadata.name === metadata.name &&
          other.metadata.namespace === metadata.namespace,
      )
    for (const { metadata, ...role } of readRoles())
      expect(find({ metadata, ...role } as RbacObject)).toMatchObject(role)
  })
})

describe('an operator with no other rights', () => {
  let installation: Installation
  let operator: Operator
  const denied = new Set<string>()

  beforeAll(async () => {
    installation = await openInstallation()
    const { cluster } = installation
    const roles = readRoles()
    const live = async () => (await cluster.list('RoleBinding')).items as RbacObject[]
    operator = await startTestOperator(installation, {
      wrap: inner => withRights(inner, 'espalier-operator', roles, live, what => denied.add(what)),
      configuration: { rightsByNamespace: true },
    })
    await giveSnapshots(cluster)
  })
  afterAll(async () => {
    await operator?.stop()
    await installation?.close()
  })
  const when = (name: string, phase: Parameters<typeof isPhase>[0]) =>
    databaseWhen(installation.cluster, name, found => found !== undefined && isPhase(phase)(found))

  test('reports a missing RoleBinding on the database, and serves the database once the RoleBinding exists', async () => {
    const { cluster } = installation
    await cluster.create('ManagedDatabase', databaseDraft('shop'))
    const found = await databaseWhen(
      cluster,
      'shop',
      database => database?.status?.conditions?.some(({ reason }) => reason === 'NamespaceNotServed') === true,
    )
    expect(found?.status?.conditions?.[0]?.message).toContain(`kubectl label namespace ${testNamespace} `)
    expect((await cluster.list('RoleBinding')).items).toEqual([])
    const namespace = await cluster.get('Namespace', { name: testNamespace })
    if (namespace === undefined) throw new Error('there is no namespace')
    const namespaceLabels = { ...namespace.metadata.labels, [databasesLabel]: 'true' }
    await cluster.replace('Namespace', { ...namespace, metadata: { ...namespace.metadata, labels: namespaceLabels } })
    await when('shop', 'available')
    expect([...denied]).toEqual([])
  })

  test('restores a database from a backup, to the end', async () => {
    const { cluster } = installation
    const id = (await when('shop', 'available'))?.metadata.labels?.[labels.id] ?? ''
    const key = (name: string) => ({ namespace: testNamespace, name })
    await cluster.create('Backup', backupDraft('earlier', { name: 'shop', id }))
    await eventually(
      () => cluster.get('Backup', key('earlier')),
      found => found?.status?.phase === 'completed',
    )
    await cluster.create('Restore', {
      ...{ apiVersion, kind: 'Restore', metadata: key('back') },
      spec: { databaseName: 'shop', databaseId: id, target: { backupName: 'earlier' } },
    })
    await eventually(
      () => cluster.get('Restore', key('back')),
      found => found?.status?.phase === 'completed',
    )
    await databaseWhen(cluster, 'shop', found => found?.status?.phase === 'available' && found.status.incarnation === 2)
    expect([...denied]).toEqual([])
  })

  test('rotates a password, to the end', async () => {
    const { cluster } = installation
    const id = (await when('shop', 'available'))?.metadata.labels?.[labels.id] ?? ''
    const secret = () => cluster.get('Secret', { namespace: testNamespace, name: childNames.credentials(id) })
    const before = (await secret())?.data ?? {}
    await editSpec(cluster, 'shop', spec => spec, { [rotationAnnotations.app]: 'new' })
    await eventually(secret, found => found?.data?.app !== before.app)
    // The previous password is deleted once Postgres has the new password.
    await eventually(secret, found => Object.keys(found?.data ?? {}).length === Object.keys(before).length)
    expect([...denied]).toEqual([])
  })

  test('creates a branch, and deletes it', async () => {
    const { cluster } = installation
    const id = (await when('shop', 'available'))?.metadata.labels?.[labels.id] ?? ''
    await cluster.create('Branch', branchDraft('tryout', { name: 'shop', id }))
    const branch = () => cluster.get('Branch', { namespace: testNamespace, name: 'tryout' })
    await eventually(branch, found => found?.status?.phase === 'available')
    await cluster.delete('Branch', { namespace: testNamespace, name: 'tryout' })
    await eventually(branch, found => found === undefined)
    expect([...denied]).toEqual([])
  })

  test('backs up, suspends, resumes, resizes and deletes', async () => {
    const { cluster } = installation
    const id = (await when('shop', 'available'))?.metadata.labels?.[labels.id] ?? ''
    await cluster.create('Backup', backupDraft('first', { name: 'shop', id }))
    await eventually(
      () => cluster.get('Backup', { namespace: testNamespace, name: 'first' }),
      found => found?.status?.phase === 'completed',
    )
    await editSpec(cluster, 'shop', spec => ({ ...spec, suspended: true }))
    await when('shop', 'suspended')
    await editSpec(cluster, 'shop', spec => ({ ...spec, suspended: false, size: { name: 'large', version: 1 } }))
    await databaseWhen(
      cluster,
      'shop',
      found => found?.status?.phase === 'available' && found.status.size?.name === 'large',
    )
    await cluster.delete('ManagedDatabase', { namespace: testNamespace, name: 'shop' })
    await eventually(
      () => cluster.get('ManagedDatabase', { namespace: testNamespace, name: 'shop' }),
      found => found === undefined,
    )
    expect([...denied]).toEqual([])
  })

  test('restores its RoleBinding', async () => {
    const { cluster } = installation
    const key = { namespace: testNamespace, name: 'espalier-operator' }
    const before = await cluster.get('RoleBinding', key)
    await cluster.delete('RoleBinding', key)
    await eventually(
      () => cluster.get('RoleBinding', key),
      found => found !== undefined && found.metadata.uid !== before?.metadata.uid,
    )
    await cluster.create('ManagedDatabase', databaseDraft('later'))
    await when('later', 'available')
  })

  test('creates a tenant, and deletes its namespace with all its content', async () => {
    const { cluster } = installation
    denied.clear()
    const namespace = tenantNamespace('acme')
    await cluster.create('Tenant', tenantDraft('acme'))
    await eventually(
      () => cluster.get('Tenant', { name: tenantName('acme') }),
      found => found?.status?.phase === 'ready',
    )
    expect((await cluster.list('RoleBinding', { namespace })).items).toHaveLength(2)
    expect((await cluster.get('Namespace', { name: namespace }))?.metadata.labels?.[labels.tenant]).toBe(
      tenantHash('acme'),
    )
    const draft = databaseDraft('orders')
    await cluster.create('ManagedDatabase', { ...draft, metadata: { ...draft.metadata, namespace } })
    const isGone = (found: unknown) => found === undefined
    await eventually(
      () => cluster.get('ManagedDatabase', { namespace, name: 'orders' }),
      found => found?.status?.phase === 'available',
    )
    await cluster.delete('ManagedDatabase', { namespace, name: 'orders' })
    await eventually(() => cluster.get('ManagedDatabase', { namespace, name: 'orders' }), isGone)
    await cluster.delete('Tenant', { name: tenantName('acme') })
    await eventually(() => cluster.get('Namespace', { name: namespace }), isGone)
    await eventually(() => cluster.get('Tenant', { name: tenantName('acme') }), isGone)
    expect([...denied]).toEqual([])
  })
})

describe('an API with no other rights', () => {
  let client: Client
  const denied = new Set<string>()

  beforeAll(async () => {
    const roles = readRoles()
    client = await startClient({
      rights: cluster =>
        withRights(
          cluster,
          'espalier-api',
          roles,
          async () => (await cluster.list('RoleBinding')).items as RbacObject[],
          what => denied.add(what),
        ),
    })
  })
  afterAll(() => client?.close())

  test('answers 503 for a password before its RoleBinding exists, and the password afterwards', async () => {
    const { body } = await client.create('shop')
    await reconcile(client.cluster, 'acme', 'shop')
    const read = () => client.call('GET', `/databases/${body.id}`)
    await until(async () => (await read()).status === 503)
    expectError(await read(), 503, /^the credentials of this database cannot be read now/)
    expect([...denied]).toEqual([expect.stringMatching(/^espalier-api cannot get secrets espalier-t-/)])
    for (const draft of bindingDrafts(tenantNamespace('acme'))) await client.cluster.create('RoleBinding', draft)
    await until(async () => (await read()).status === 200)
    expect((await read()).body.connection.password).toBe('password-of-app')
    denied.clear()
  })

  test('creates, changes, backs up, branches and reads logs', async () => {
    await giveAtomicSnapshots(client.cluster)
    const id = (await client.call('GET', '/databases')).body[0].id
    const call = async (...args: Parameters<Client['call']>) => (await client.call(...args)).status
    const key = { 'idempotency-key': 'the-only-one' }
    expect(await call('POST', `/databases/${id}/backup`, { body: { kind: 'hot' }, headers: key })).toBeLessThan(300)
    expect(await call('POST', `/databases/${id}/branches`, { body: {} })).toBeLessThan(300)
    expect(await call('PATCH', `/databases/${id}`, { body: { display_name: 'Shop' } })).toBeLessThan(300)
    expect(await call('GET', `/databases/${id}/logs`)).toBeLessThan(300)
    expect([...denied]).toEqual([])
  })

  test('restores, rotates a password, and deletes a branch', async () => {
    const { cluster } = client
    const id = (await client.call('GET', '/databases')).body[0].id
    const call = async (...args: Parameters<Client['call']>) => (await client.call(...args)).status
    await reconcile(cluster, 'acme', 'shop')
    const namespace = tenantNamespace('acme')
    const [backup] = (await cluster.list('Backup', { namespace })).items
    if (backup === undefined) throw new Error('there is no backup')
    await cluster.replaceStatus('Backup', { ...backup, status: { ...backup.status, phase: 'completed' } })
    const backupId = backup.metadata.labels?.[labels.id]
    await until(async () => (await client.call('GET', `/backups/${backupId}`)).body.status === 'completed')
    expect(await call('POST', `/databases/${id}/restore`, { body: { backup_id: backupId } })).toBeLessThan(300)
    await reconcile(cluster, 'acme', 'shop')
    const rotate = () => call('POST', `/databases/${id}/roles/app/rotate-password`, { body: {} })
    await until(async () => (await rotate()) < 300)
    for (const made of (await cluster.list('Branch', { namespace })).items)
      await cluster.replaceStatus('Branch', { ...made, status: { ...made.status, phase: 'available' } })
    const [branch] = (await client.call('GET', `/databases/${id}/branches`)).body
    expect(await call('GET', `/databases/${id}/branches/${branch.id}`)).toBe(200)
    await until(async () => (await call('DELETE', `/databases/${id}/branches/${branch.id}`)) < 300)
    expect(await call('GET', `/databases/${id}/previous`)).toBe(200)
    expect([...denied]).toEqual([])
  })

  test('lists Tasks and backups, and deletes the database', async () => {
    const id = (await client.call('GET', '/databases')).body[0].id
    const call = async (...args: Parameters<Client['call']>) => (await client.call(...args)).status
    expect(await call('GET', '/tasks')).toBe(200)
    expect(await call('GET', '/backups')).toBe(200)
    await client.auditRecorder.flush()
    expect(client.auditRecorder.waiting('acme')).toEqual([])
    expect(await call('GET', '/audit')).toBe(200)
    expect(await call('DELETE', `/databases/${id}?force=true`)).toBeLessThan(300)
    expect([...denied]).toEqual([])
  })
})

/** Makes snapshots atomic in the region of the API's tests. */
async function giveAtomicSnapshots(cluster: Cluster): Promise<void> {
  const region = await cluster.get('Region', { name: 'local' })
  if (region === undefined) throw new Error('there is no region')
  const snapshotClass = { name: 'fast', atomic: true }
  await cluster.replace('Region', { ...region, spec: { ...region.spec, snapshotClass } })
}
