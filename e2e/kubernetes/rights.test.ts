/** Permissions of operator and API, as the API server reports them: no fewer than they need, and no more. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { ofOthers, ofSystem, ofTenant, rights } from '../../charts/testing/rights.ts'
import { systemNamespace } from '../../crds/index.ts'
import { eventually } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'

const tenant = 'rights'
let provider: KindProvider
let namespace: string
const userOf = (account: string) => `system:serviceaccount:${systemNamespace}:${account}`

beforeAll(async () => {
  provider = await startKind()
  namespace = provider.namespace(tenant)
  const api = await provider.client(tenant)
  // A tenant's first write creates its namespace.
  const { body } = await api.create({ name: 'first' })
  await api.remove(body.id)
})
afterAll(() => provider?.stop())

const kubectl = (args: string[], input?: string) => provider.kubectl(args, input)

test('operator and API have the permissions that the table allows, and none that it denies', async () => {
  const namespaces = { [ofTenant]: namespace, [ofOthers]: 'kube-system', [ofSystem]: systemNamespace }
  const reviews = rights.map(({ account, verb, group, resource: path, name, namespace: namespaceKey }) => {
    const [resource, subresource] = path.split('/')
    return {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: userOf(account),
        groups: ['system:serviceaccounts', `system:serviceaccounts:${systemNamespace}`, 'system:authenticated'],
        resourceAttributes: {
          verb,
          group,
          resource,
          subresource,
          name,
          namespace: namespaceKey && namespaces[namespaceKey],
        },
      },
    }
  })
  const input = reviews.map(review => stringify(review)).join('---\n')
  const answered = await kubectl(['create', '-f', '-', '-o', 'jsonpath={.status.allowed}{"\\n"}'], input)
  const verdicts = answered.trim().split('\n')
  expect(verdicts).toHaveLength(rights.length)
  const wrong = rights.filter(({ isAllowed }, index) => verdicts[index] !== String(isAllowed))
  expect(wrong).toEqual([])
})

const bind = (account: string, where: string, role: string) => {
  const flags = [`--clusterrole=${role}`, `--serviceaccount=${systemNamespace}:${account}`, '--dry-run=server']
  const args = ['create', 'rolebinding', account, '-n', where, '--as', userOf('espalier-operator'), ...flags]
  return kubectl(args).then(() => 'created', String)
}

test('the operator binds itself and the API to their roles, only in namespaces of databases', async () => {
  expect(await bind('espalier-operator', 'kube-system', 'espalier-operator-tenant')).toContain(
    'may bind roles only in namespaces that may have databases',
  )
  expect(await bind('espalier-api', namespace, 'cluster-admin')).toContain('forbidden')
  expect(await bind('default', namespace, 'espalier-api-tenant')).toContain('may bind only itself and the API')
  const label = ['label', 'namespace', 'kube-system', 'espalier.dev/databases=true', '--dry-run=server']
  const labelled = await kubectl([...label, '--as', userOf('espalier-operator')]).then(() => 'labelled', String)
  expect(labelled).toContain("only tenants' namespaces")
})

test('a deleted binding is created again soon', async () => {
  const read = async () =>
    (
      await kubectl(['get', 'rolebinding', 'espalier-operator', '-n', namespace, '-o', 'jsonpath={.metadata.uid}'])
    ).trim()
  const before = await read()
  await kubectl(['delete', 'rolebinding', 'espalier-operator', '-n', namespace, '--wait=false'])
  await eventually('the RoleBinding is created again', async () => {
    const uid = await read().catch(() => '')
    return uid !== '' && uid !== before
  })
})
