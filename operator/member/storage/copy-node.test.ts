/** On which node the storage driver creates a copy's volume, and how long the pod waits for the volume. */
import { describe, expect, test } from 'vitest'
import type { PersistentVolume, PersistentVolumeClaim, Pod } from '../../../cluster/index.ts'
import { labels } from '../../../crds/index.ts'
import type { Instance } from '../../objects/instance.ts'
import { copyNodeOf, isOnlyOn, provisionsWithoutPod, selectedNodeAnnotation } from './copy-node.ts'

const expression = (operator: string, values: string[]) => ({ key: 'storage.example/node', operator, values })
const volumeWith = (...terms: ReturnType<typeof expression>[][]): PersistentVolume => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: 'pv' },
  spec: { nodeAffinity: { required: { nodeSelectorTerms: terms.map(matchExpressions => ({ matchExpressions })) } } },
})
const onOne = volumeWith([expression('In', ['one'])])

describe('whether a volume is usable only on a given node', () => {
  test.each<[string, PersistentVolume, boolean]>([
    ['true if the affinity names only that node', onOne, true],
    [
      'true if the affinity also names a zone',
      volumeWith([expression('In', ['zone-a']), expression('In', ['one'])]),
      true,
    ],
    [
      'true if each term of the affinity names that node',
      volumeWith([expression('In', ['one'])], [expression('In', ['one'])]),
      true,
    ],
    ['false if the affinity names another node', volumeWith([expression('In', ['two'])]), false],
    ['false if the affinity names two nodes', volumeWith([expression('In', ['one', 'two'])]), false],
    [
      'false if another term does not name that node',
      volumeWith([expression('In', ['one'])], [expression('In', ['z'])]),
      false,
    ],
    ['false if the affinity excludes the node', volumeWith([expression('NotIn', ['one'])]), false],
    ['false if the affinity names only a zone', volumeWith([expression('In', ['zone-a'])]), false],
    ['false if the affinity has no terms', volumeWith(), false],
    ['false without affinity', { ...onOne, spec: {} }, false],
  ])('%s', (_, volume, is) => {
    expect(isOnlyOn(volume, 'one')).toBe(is)
  })
})

describe('the claim of a copy', () => {
  const copy: Instance = {
    kind: 'Branch',
    metadata: { name: 'copy', namespace: 'databases' },
    spec: {
      ...{ region: 'here', size: { name: 'small', version: 1 }, pgVersion: '18', suspended: false },
      ipAllowlist: { rules: [] },
    },
    dataSource: { kind: 'snapshot', snapshot: 'cut', id: 'source', systemIdentifier: '7', bytes: 1 },
  }
  const podOn = (node: string | undefined, namespace = 'databases', component = 'postgres'): Pod => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'source', namespace, labels: { [labels.component]: component } },
    spec: { containers: [], ...(node === undefined ? {} : { nodeName: node }) },
  })
  const indexed = <T>(objects: T[]) => ({ byIndex: (_: string, id: string) => (id === 'source' ? objects : []) })
  const nodeFor = (pods: Pod[], volumes: PersistentVolume[], instance = copy) =>
    // `copyNodeOf` reads no other cache.
    copyNodeOf(
      { pods: indexed(pods), volumes: indexed(volumes) } as unknown as Parameters<typeof copyNodeOf>[0],
      instance,
    )

  test.each<[string, string | undefined, string | undefined]>([
    ["names the source's node, if the source's volume is only on that node", nodeFor([podOn('one')], [onOne]), 'one'],
    ['names no node if the source does not run', nodeFor([], [onOne]), undefined],
    ["names no node if the source's pod has none yet", nodeFor([podOn(undefined)], [onOne]), undefined],
    [
      "names the node of the source's Postgres, not of a service's pod",
      nodeFor([podOn('two', 'databases', 'rest'), podOn('one')], [onOne]),
      'one',
    ],
    ['names no node because of a pod in another namespace', nodeFor([podOn('one', 'others')], [onOne]), undefined],
    ["names no node if the source's pod is on another node", nodeFor([podOn('two')], [onOne]), undefined],
    ['names no node if no volume is known', nodeFor([podOn('one')], []), undefined],
    ['names no node if volumes are on several nodes', nodeFor([podOn('one')], [onOne, volumeWith()]), undefined],
    [
      'names no node if it is not a copy',
      nodeFor([podOn('one')], [onOne], { ...copy, dataSource: undefined }),
      undefined,
    ],
    [
      'names no node if it already has a volume',
      nodeFor([podOn('one')], [onOne], {
        ...copy,
        status: { volume: { claim: 'claim', uid: 'uid', systemIdentifier: '7' } },
      }),
      undefined,
    ],
  ])('%s', (_, node, expected) => {
    expect(node).toBe(expected)
  })
})

describe('whether the driver provisions a volume without a pod', () => {
  const made = Date.parse('2026-01-01T00:00:00Z')
  const claimOf = (phase: string | undefined, annotations: Record<string, string>): PersistentVolumeClaim => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'claim', creationTimestamp: '2026-01-01T00:00:00Z', annotations },
    ...(phase === undefined ? {} : { status: { phase } }),
  })
  const named = { [selectedNodeAnnotation]: 'one' }
  test.each<[string, PersistentVolumeClaim | undefined, number, boolean]>([
    ['true while the claim is new and names a node', claimOf('Pending', named), made, true],
    ['true even before the claim has a phase', claimOf(undefined, named), made + 4_999, true],
    ['false after five seconds', claimOf('Pending', named), made + 5_000, false],
    ['false if the clock is far behind', claimOf('Pending', named), made - 5_000, false],
    ['false if the volume exists', claimOf('Bound', named), made, false],
    ['false if the driver has removed the annotation', claimOf('Pending', {}), made, false],
    ['false without a claim', undefined, made, false],
  ])('%s', (_, claim, now, expected) => {
    expect(provisionsWithoutPod(claim, now)).toBe(expected)
  })
})
