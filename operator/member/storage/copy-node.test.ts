/** On which node a copy's volume is created, and how long its pod waits for it. */
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

describe('a volume is only on a node', () => {
  test.each<[string, PersistentVolume, boolean]>([
    ['that is the only one in its affinity', onOne, true],
    ['that it names beside its zone', volumeWith([expression('In', ['zone-a']), expression('In', ['one'])]), true],
    ['that each of its terms names', volumeWith([expression('In', ['one'])], [expression('In', ['one'])]), true],
    ['not if it names another', volumeWith([expression('In', ['two'])]), false],
    ['not if it names two', volumeWith([expression('In', ['one', 'two'])]), false],
    ['not if another term names no node', volumeWith([expression('In', ['one'])], [expression('In', ['z'])]), false],
    ['not if it excludes the node', volumeWith([expression('NotIn', ['one'])]), false],
    ['not if it names a zone', volumeWith([expression('In', ['zone-a'])]), false],
    ['not if its terms are empty', volumeWith(), false],
    ['not without affinity', { ...onOne, spec: {} }, false],
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
    // No other cache is read.
    copyNodeOf(
      { pods: indexed(pods), volumes: indexed(volumes) } as unknown as Parameters<typeof copyNodeOf>[0],
      instance,
    )

  test.each<[string, string | undefined, string | undefined]>([
    ['names the node of its source, if its volume is on that one only', nodeFor([podOn('one')], [onOne]), 'one'],
    ['names none if the source does not run', nodeFor([], [onOne]), undefined],
    ['names none if the source has no node yet', nodeFor([podOn(undefined)], [onOne]), undefined],
    [
      'names that of its source, and not that of a service beside it',
      nodeFor([podOn('two', 'databases', 'rest'), podOn('one')], [onOne]),
      'one',
    ],
    ['names none by a pod in another namespace', nodeFor([podOn('one', 'others')], [onOne]), undefined],
    ['names none if the source is elsewhere', nodeFor([podOn('two')], [onOne]), undefined],
    ['names none if no volume is known', nodeFor([podOn('one')], []), undefined],
    ['names none if volumes are on several nodes', nodeFor([podOn('one')], [onOne, volumeWith()]), undefined],
    ['names none if it is no copy', nodeFor([podOn('one')], [onOne], { ...copy, dataSource: undefined }), undefined],
    [
      'names none if it has its volume',
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

describe('a volume is provisioned without a pod', () => {
  const made = Date.parse('2026-01-01T00:00:00Z')
  const claimOf = (phase: string | undefined, annotations: Record<string, string>): PersistentVolumeClaim => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'claim', creationTimestamp: '2026-01-01T00:00:00Z', annotations },
    ...(phase === undefined ? {} : { status: { phase } }),
  })
  const named = { [selectedNodeAnnotation]: 'one' }
  test.each<[string, PersistentVolumeClaim | undefined, number, boolean]>([
    ['while its claim is new and names a node', claimOf('Pending', named), made, true],
    ['also before the claim has a phase', claimOf(undefined, named), made + 4_999, true],
    ['not after a while', claimOf('Pending', named), made + 5_000, false],
    ['not by a clock that is far behind', claimOf('Pending', named), made - 5_000, false],
    ['not once it exists', claimOf('Bound', named), made, false],
    ['not if the driver has refused the node', claimOf('Pending', {}), made, false],
    ['not without a claim', undefined, made, false],
  ])('%s', (_, claim, now, comes) => {
    expect(provisionsWithoutPod(claim, now)).toBe(comes)
  })
})
