import { describe, expect, test } from 'vitest'
import { labels } from '../../../crds/index.ts'
import { podSettings } from '../../pod-settings.ts'
import { smallShape } from '../../testing/samples.ts'
import { placementOf } from './placement.ts'
import { statefulSetDraft, templateAnnotation } from './stateful-set.ts'

const owner = {
  kind: 'ManagedDatabase' as const,
  namespace: 'espalier-t-0',
  name: 'shop',
  uid: 'u',
  id: '6ba7b810-9dad-41d1-80b4-00c04fd430c8',
  hostLabel: 'shop-6ba7b810',
}
const templateOf = (settings: object) =>
  statefulSetDraft({
    owner,
    incarnation: 1,
    number: 0,
    image: 'i',
    size: { name: 'small', version: 1 },
    shape: smallShape,
    volume: 'v',
    suspended: false,
    role: 'primary',
    pods: podSettings.parse(settings),
  }).spec?.template

describe('the placement of a database pod', () => {
  test('is any node by default, with a grace period of half an hour', () => {
    expect(placementOf(podSettings.parse({}))).toEqual({ terminationGracePeriodSeconds: 1800 })
  })

  test("follows the installation's settings", () => {
    const settings = {
      imagePullSecrets: [{ name: 'registry' }],
      priorityClassName: 'databases',
      nodeSelector: { 'node.example.com/pool': 'databases' },
      tolerations: [{ key: 'dedicated', operator: 'Equal', value: 'databases', effect: 'NoSchedule' }],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: 'arch', operator: 'In', values: ['amd64'] }] }],
          },
        },
      },
      terminationGracePeriodSeconds: 600,
    }
    expect(templateOf(settings)?.spec).toMatchObject(settings)
  })

  test("spreads the namespace's databases, unless another selector is configured", () => {
    const zone = { topologyKey: 'topology.kubernetes.io/zone', maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway' }
    const labelSelector = { matchLabels: { tier: 'one' } }
    const { topologySpreadConstraints } = placementOf(
      podSettings.parse({ topologySpreadConstraints: [zone, { ...zone, labelSelector }] }),
    )
    expect(topologySpreadConstraints).toEqual([
      { ...zone, labelSelector: { matchLabels: { [labels.component]: 'postgres' } } },
      { ...zone, labelSelector },
    ])
  })

  test('is part of the pod template', () => {
    const digest = (settings: object) => templateOf(settings)?.metadata?.annotations?.[templateAnnotation]
    expect(digest({ priorityClassName: 'databases' })).not.toBe(digest({}))
    expect(digest({ disruptionBudget: true })).toBe(digest({}))
  })

  test.each([
    ['a misspelt setting', { nodeselector: {} }, /nodeselector/],
    ['an unknown effect', { tolerations: [{ key: 'a', effect: 'NoRun' }] }, /effect/],
    ['a toleration of all taints', { tolerations: [{ value: 'a' }] }, /without a key/],
    ['an invalid label', { nodeSelector: { 'a b': 'c' } }, /label/],
    ['an unknown affinity', { affinity: { nodeAfinity: {} } }, /nodeAfinity/],
    [
      'a spread constraint without whenUnsatisfiable',
      { topologySpreadConstraints: [{ topologyKey: 'a', maxSkew: 1 }] },
      /when/,
    ],
    ['a grace period of 0', { terminationGracePeriodSeconds: 0 }, /terminationGracePeriodSeconds/],
  ])('refuses %s', (_, settings, message) => {
    expect(podSettings.safeParse(settings).error?.message).toMatch(message)
  })
})
