/** A pod of a service has the label of its database, but is not its Postgres. */
import { expect, test } from 'vitest'
import type { Pod } from '../../cluster/index.ts'
import { childNames, labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { httpRouteName, routeComponent } from '../../routes/route.ts'
import { podsOf } from '../member/pod/pod.ts'
import { ownerKeyAnnotation, ownerUidAnnotation } from '../objects/ownership.ts'
import { podSettings } from '../pod-settings.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, testNamespace } from '../testing/installation.ts'

const it = useInstallation({ configuration: { pods: podSettings.parse({ disruptionBudget: true }) } })

const pods = (...found: Pod[]) =>
  ({
    pods: { byIndex: (_: string, id: string) => found.filter(pod => pod.metadata.labels?.[labels.database] === id) },
  }) as never

const podOf = (id: string, name: string, component: string | undefined): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    ...{ name, namespace: testNamespace },
    labels: {
      ...{ [labels.managedBy]: managedByEspalier, [labels.database]: id },
      ...(component === undefined ? {} : { [labels.component]: component }),
    },
  },
  spec: { containers: [{ name: 'rest', image: 'rest' }], nodeName: 'elsewhere' },
})

test.each<[string, string | undefined, string, boolean]>([
  ['a pod of Postgres', 'postgres', 'any', true],
  ['a pod of a service', 'rest', 'db-019c1f2a5b3c7d4e-rest-7d4b9c-x2x4z', false],
  ['a pod of a backup that is verified', 'verification', 'verify-1', false],
  ['Postgres that lost its component', undefined, childNames.pod('019c1f2a-5b3c-7d4e-8f60-718293a4b5c6', 1), true],
  [
    'Postgres that was given another component',
    'rest',
    childNames.pod('019c1f2a-5b3c-7d4e-8f60-718293a4b5c6', 2, 3),
    true,
  ],
  ['another pod without a component', undefined, 'any', false],
])('%s is found as Postgres only if it is', (_, component, name, isFound) => {
  const id = '019c1f2a-5b3c-7d4e-8f60-718293a4b5c6'
  const pod = podOf(id, name, component)
  expect(podsOf(pods(pod), id, testNamespace)).toEqual(isFound ? [pod] : [])
})

test('a pod and a route of a service change nothing of its database, and are deleted with it', async () => {
  const database = await it.create('served')
  const id = await it.idOf('served')
  const pod = podOf(id, `${childNames.service(id)}-rest-1`, 'rest')
  const annotations = {
    [ownerUidAnnotation]: database.metadata.uid ?? '',
    [ownerKeyAnnotation]: `${testNamespace}/served`,
  }
  await it.cluster().create('Pod', { ...pod, metadata: { ...pod.metadata, annotations } })
  const route = { namespace: systemNamespace, name: httpRouteName('rest.served.db.test') }
  await it.cluster().create('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...route, annotations, labels: { ...pod.metadata.labels, [labels.component]: routeComponent } },
  })
  await it.stopOperator()
  await it.startOperator()
  const restarted = await it.when('served', ({ status }) => status?.phase === 'available')
  expect(restarted.status?.endpoint).toEqual(database.status?.endpoint)
  expect(restarted.status?.instances).toEqual([
    { id: childNames.pod(id, 1), role: 'primary', node: expect.any(String) },
  ])
  const named = { namespace: testNamespace, name: childNames.service(id) }
  const budget = await eventually(
    () => it.cluster().get('PodDisruptionBudget', named),
    found => found !== undefined,
  )
  const [service, policy, set] = await Promise.all([
    it.cluster().get('Service', named),
    it.cluster().get('NetworkPolicy', named),
    it.child('StatefulSet', 'served', 'statefulSet'),
  ])
  for (const selector of [
    service?.spec?.selector,
    policy?.spec?.podSelector?.matchLabels,
    budget?.spec?.selector?.matchLabels,
    set?.spec?.selector.matchLabels,
  ])
    expect(selector).toMatchObject({ [labels.component]: 'postgres' })
  await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'served' })
  await it.untilDeleted('served')
  const { namespace, name } = pod.metadata
  expect(await it.cluster().get('Pod', { namespace, name })).toBeUndefined()
  expect(await it.cluster().get('ConfigMap', route)).toBeUndefined()
})
