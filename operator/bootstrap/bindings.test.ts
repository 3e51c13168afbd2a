import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import { declarations, labels, managedByEspalier, tenantHash, tenantNamespace } from '../../crds/index.ts'
import { openStore, type Store } from '../../embedded/store/index.ts'
import { databasesLabel } from '../access/bindings.ts'
import { databaseDraft } from '../testing/installation.ts'
import { bindNamespaces, namespacesNotAllowed } from './bindings.ts'

let store: Store
let cluster: Cluster
beforeEach(async () => {
  const definitions = Object.values(declarations).map(definitionOf)
  store = await openStore({ definitions, logger: pino({ level: 'silent' }) })
  cluster = store.connect('test')
})
afterEach(() => store.close())

const addNamespace = (name: string, objectLabels: Record<string, string> = {}) =>
  cluster.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: objectLabels } })
const addDatabase = (namespace: string) => {
  const draft = databaseDraft('shop')
  return cluster.create('ManagedDatabase', { ...draft, metadata: { ...draft.metadata, namespace } })
}
const tenant = { [labels.managedBy]: managedByEspalier, [labels.tenant]: tenantHash('acme') }
const bound = async () =>
  (await cluster.list('RoleBinding')).items.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`).sort()

test("before an upgrade, operator and API get one binding in each tenant's namespace and each labelled one", async () => {
  const name = tenantNamespace('acme')
  await addNamespace(name, tenant)
  await addNamespace('shared', { [databasesLabel]: 'true' })
  await addNamespace('kube-system', tenant)
  expect(await bindNamespaces(cluster)).toBe(4)
  const expected = [name, 'shared'].flatMap(where => [`${where}/espalier-api`, `${where}/espalier-operator`]).sort()
  expect(await bound()).toEqual(expected)
  expect(await bindNamespaces(cluster)).toBe(0)
})

test('a namespace with databases and without the label is reported, with what to do', async () => {
  await addNamespace(tenantNamespace('acme'), tenant)
  await addDatabase(tenantNamespace('acme'))
  expect(await namespacesNotAllowed(cluster)).toEqual([])
  await addNamespace('legacy')
  await addDatabase('legacy')
  expect(await namespacesNotAllowed(cluster)).toEqual([
    expect.stringContaining('kubectl label namespace legacy espalier.dev/databases=true'),
  ])
})
