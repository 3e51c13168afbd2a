import { expect, test } from 'vitest'
import type { Node } from '../../cluster/index.ts'
import { ClusterError } from '../../cluster/index.ts'
import { createNodeCount, mayRunOn, replicasOf } from './nodes.ts'

const node = (name: string, more: Partial<Pick<Node, 'spec' | 'status'>> = {}, labels = {}): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels },
  status: { conditions: [{ type: 'Ready', status: 'True' }] },
  ...more,
})

const anywhere = { nodeSelector: {}, tolerations: [] }

/** Pages of one node each, to detect a count that reads more pages than necessary. */
function countOf(nodes: () => Node[] | ClusterError) {
  let time = 0
  let lists = 0
  const list = async (_kind: string, { continueToken }: { continueToken?: string | undefined } = {}) => {
    lists++
    const found = nodes()
    if (found instanceof ClusterError) throw found
    const index = Number(continueToken ?? 0)
    const rest = index + 1 < found.length ? { continueToken: String(index + 1) } : {}
    return { items: found.slice(index, index + 1), resourceVersion: '1', ...rest }
  }
  const count = createNodeCount({ cluster: { list: list as never }, podSettings: anywhere, now: () => time })
  const pass = (ms: number) => {
    time += ms
  }
  return { count, pass, lists: () => lists }
}

test('two nodes count as several, and no more pages are read', async () => {
  const { count, lists } = countOf(() => [node('a'), node('b'), node('c')])
  expect(await Promise.all([count(), count()])).toEqual(['several', 'several'])
  expect(lists()).toBe(2)
  await count()
  expect(lists()).toBe(2)
})

test('a deleted node counts as deleted after half an hour, and as present again at once', async () => {
  let nodes = [node('a'), node('b')]
  const { count, pass } = countOf(() => nodes)
  expect(await count()).toBe('several')
  nodes = [node('a'), node('b', { spec: { unschedulable: true } })]
  pass(60_000)
  expect(await count()).toBe('unknown')
  pass(29 * 60_000)
  expect(await count()).toBe('unknown')
  nodes = [node('a'), node('b')]
  pass(60_000)
  expect(await count()).toBe('several')
  nodes = [node('a')]
  for (let minute = 0; minute < 31; minute++) {
    pass(60_000)
    expect(await count()).toBe(minute < 30 ? 'unknown' : 'one')
  }
})

test('an operator that cannot list nodes, or is not permitted to, keeps the existing replicas', async () => {
  let answer: Node[] | ClusterError = new ClusterError('Forbidden', 'nodes is forbidden')
  const { count, pass } = countOf(() => answer)
  expect(await count()).toBe('unknown')
  pass(3600_000)
  expect(await count()).toBe('unknown')
  answer = new ClusterError('Unavailable', 'no answer')
  pass(60_000)
  expect(await count()).toBe('unknown')
  pass(60_000)
  answer = [node('a'), node('b')]
  expect(await count()).toBe('several')
  answer = new ClusterError('Unavailable', 'no answer')
  pass(60_000)
  expect(await count()).toBe('several')
})

const noSchedule = { key: 'dedicated', value: 'databases', effect: 'NoSchedule' }
test.each<[string, Node, object, boolean]>([
  ['ready', node('a'), {}, true],
  ['not ready', node('a', { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } }), {}, false],
  ['without a status', node('a', { status: undefined }), {}, false],
  ['cordoned', node('a', { spec: { unschedulable: true } }), {}, false],
  ['tainted', node('a', { spec: { taints: [noSchedule] } }), {}, false],
  ['tainted softly', node('a', { spec: { taints: [{ ...noSchedule, effect: 'PreferNoSchedule' }] } }), {}, true],
  [
    'tainted and tolerated',
    node('a', { spec: { taints: [noSchedule] } }),
    { tolerations: [{ key: 'dedicated', value: 'databases' }] },
    true,
  ],
  [
    'tainted with another value',
    node('a', { spec: { taints: [noSchedule] } }),
    { tolerations: [{ key: 'dedicated', value: 'other' }] },
    false,
  ],
  [
    'tainted, if every taint is tolerated',
    node('a', { spec: { taints: [noSchedule] } }),
    { tolerations: [{ operator: 'Exists' }] },
    true,
  ],
  ['not selected', node('a'), { nodeSelector: { pool: 'databases' } }, false],
  ['selected', node('a', {}, { pool: 'databases' }), { nodeSelector: { pool: 'databases' } }, true],
])('a node that is %s', (_, node, settings, expected) => {
  expect(mayRunOn(node, { ...anywhere, ...settings })).toBe(expected)
})

test('replicas are those of the installation, or follow the nodes', () => {
  expect([1, 2].map(chosen => replicasOf(chosen as 1 | 2, 'several', 2))).toEqual([1, 2])
  expect([replicasOf('auto', 'several', 1), replicasOf('auto', 'one', 2)]).toEqual([2, 1])
  expect([undefined, 1, 2].map(present => replicasOf('auto', 'unknown', present))).toEqual([1, 1, 2])
})
