import { describe, expect, test } from 'vitest'
import { labels } from '../../crds/index.ts'
import { statefulSetDraft } from '../member/pod/stateful-set.ts'
import { podSettings } from '../pod-settings.ts'
import { smallShape } from '../testing/samples.ts'
import { networkPolicyDraft } from './network-policy.ts'

const owner = {
  kind: 'ManagedDatabase' as const,
  namespace: 'espalier-t-0',
  name: 'shop',
  uid: 'u',
  id: '6ba7b810-9dad-41d1-80b4-00c04fd430c8',
  hostLabel: 'shop-6ba7b810',
}
const prometheus = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }
const policy = networkPolicyDraft(owner, { metricsFrom: [prometheus] }).spec

type Labels = Record<string, string>
const matches = (selector: { matchLabels?: Labels } | undefined, labelsOf: Labels) =>
  Object.entries(selector?.matchLabels ?? {}).every(([key, value]) => labelsOf[key] === value)

/** Whether a pod may connect, as decided by a network that enforces the policy (Kubernetes: Network Policies). */
const admits = (namespace: string, pod: Labels, port: number, among = policy) =>
  among?.ingress?.some(
    ({ from, ports }) =>
      ports?.some(each => each.port === port) &&
      from?.some(peer => {
        const isThere = peer.namespaceSelector
          ? matches(peer.namespaceSelector, { 'kubernetes.io/metadata.name': namespace })
          : namespace === owner.namespace
        return isThere && matches(peer.podSelector, pod)
      }),
  )

const own = (component: string) => ({ 'app.kubernetes.io/name': 'espalier', 'app.kubernetes.io/component': component })

describe('the NetworkPolicy of a database', () => {
  test('selects the Postgres pod of every incarnation, and of no other database', () => {
    const podOf = (id: string, incarnation: number) =>
      statefulSetDraft({
        owner: { ...owner, id },
        incarnation,
        number: 0,
        image: 'i',
        size: { name: 'small', version: 1 },
        shape: smallShape,
        volume: 'v',
        suspended: false,
        role: 'primary',
        pods: podSettings.parse({}),
      }).spec?.template.metadata?.labels ?? {}
    expect(matches(policy?.podSelector, podOf(owner.id, 1))).toBe(true)
    expect(matches(policy?.podSelector, podOf(owner.id, 7))).toBe(true)
    expect(matches(policy?.podSelector, podOf('00000000-0000-4000-8000-000000000000', 1))).toBe(false)
  })

  test.each([
    ['the gateway', 'espalier-system', own('gateway'), true],
    ['the operator', 'espalier-system', own('operator'), true],
    ['a service of the database', owner.namespace, { [labels.database]: owner.id, [labels.component]: 'rest' }, true],
    ['the API', 'espalier-system', own('api'), false],
    ["a pod in another namespace with the gateway's labels", owner.namespace, own('gateway'), false],
    ['a service of another database', owner.namespace, { [labels.database]: 'other' }, false],
    ["a pod in another namespace with the database's label", 'default', { [labels.database]: owner.id }, false],
    ['any pod in its namespace', owner.namespace, {}, false],
    ['the metrics collector', 'monitoring', {}, false],
  ])('decides about %s', (_, namespace, pod, admitted) => {
    expect(admits(namespace, pod, 5432)).toBe(admitted)
  })

  test('admits the API to Postgres only if the API runs SQL', () => {
    const open = networkPolicyDraft(owner, { metricsFrom: [prometheus], apiConnects: true }).spec
    expect(admits('espalier-system', own('api'), 5432, open)).toBe(true)
    expect(admits('default', own('api'), 5432, open)).toBe(false)
    expect(admits('monitoring', {}, 5432, open)).toBe(false)
    const closed = networkPolicyDraft(owner, { metricsFrom: [prometheus], apiConnects: false }).spec
    expect(closed).toEqual(policy)
    expect({ ...open, ingress: open?.ingress?.slice(1) }).toEqual({ ...policy, ingress: policy?.ingress?.slice(1) })
  })

  test.each([
    ['the API', 'espalier-system', own('api'), true],
    ['the metrics collector', 'monitoring', {}, true],
    ['the operator', 'espalier-system', own('operator'), false],
    ['the gateway', 'espalier-system', own('gateway'), false],
    ['a service of the database', owner.namespace, { [labels.database]: owner.id }, false],
    ["a pod in another namespace with the API's labels", 'default', own('api'), false],
  ])('decides about %s that connects to the agent', (_, namespace, pod, admitted) => {
    expect(admits(namespace, pod, 8432)).toBe(admitted)
  })

  test('admits only the configured clients to metrics', () => {
    expect(admits('monitoring', {}, 8432, networkPolicyDraft(owner, { metricsFrom: [] }).spec)).toBe(false)
  })

  test('blocks egress, and admits ingress on two ports only', () => {
    expect(policy?.policyTypes).toEqual(['Ingress', 'Egress'])
    expect(policy?.egress).toBeUndefined()
    expect(policy?.ingress?.flatMap(({ ports }) => ports?.map(({ port }) => port))).toEqual([5432, 8432])
  })
})
