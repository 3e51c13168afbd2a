/** A node that does not report: the condition says what to do, and no second Postgres is ever started on the data. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Node, Pod } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { lostNode, nodeFacts, outOfServiceTaint } from '../member/pod/node.ts'
import { condition, hasCondition, isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, testNamespace } from '../testing/installation.ts'

const it = useInstallation()
/** The node on which the fake workload runs every pod. */
const name = 'fake'
const since = '2026-01-01T00:00:00Z'

const heartbeat = (status: string): NonNullable<Node['status']> => ({
  conditions: [{ type: 'Ready', status, lastTransitionTime: since }],
})
const node = async () => {
  const found = await it.cluster().get('Node', { name })
  if (found === undefined) throw new Error('no node')
  return found
}
const setHeartbeat = async (status: string) =>
  it.cluster().replaceStatus('Node', { ...(await node()), status: heartbeat(status) })

const podOf = async (database: string): Promise<Pod> => {
  const pod = await it.child('Pod', database, 'pod')
  if (pod === undefined) throw new Error('no pod')
  return pod
}
/** What the cluster writes to the pods of a silent node: only this condition. */
const setReady = async (database: string, status: string) => {
  const pod = await podOf(database)
  const conditions = [{ type: 'Ready', status }]
  await it.cluster().replaceStatus('Pod', { ...pod, status: { ...pod.status, conditions } })
}
const podsOf = async (database: string) =>
  (await it.cluster().list('Pod', { namespace: testNamespace, labels: { [labels.database]: await it.idOf(database) } }))
    .items

beforeEach(async () => {
  await it.cluster().create('Node', { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: {} })
  await setHeartbeat('True')
})
afterEach(() => it.cluster().delete('Node', { name }))

describe('a database on a silent node', () => {
  test('is degraded with advice, and serves again when the node reports again', async () => {
    await it.create('silent')
    const before = (await podOf('silent')).metadata.uid
    await setHeartbeat('Unknown')
    await setReady('silent', 'False')
    const reported = await it.when('silent', hasCondition('Ready', 'NodeLost'))
    expect(condition(reported, 'Ready')?.message).toContain(since)
    expect(condition(reported, 'Ready')?.message).toContain(
      `kubectl taint nodes ${name} ${outOfServiceTaint}=nodeshutdown`,
    )
    await it.when('silent', isPhase('degraded'))
    await setHeartbeat('True')
    await setReady('silent', 'True')
    await it.when('silent', isPhase('available'))
    expect((await podsOf('silent')).map(pod => pod.metadata.uid)).toEqual([before])
  })

  test('that is evicted waits with its one pod until a user marks the node as out of service', async () => {
    await it.create('evicted')
    const { metadata } = await podOf('evicted')
    // A pod whose kubelet confirms nothing remains, like one with a finalizer.
    const withFinalizer = {
      ...(await podOf('evicted')),
      metadata: { ...metadata, finalizers: ['example.com/kubelet'] },
    }
    await it.cluster().replace('Pod', withFinalizer)
    await setHeartbeat('Unknown')
    await setReady('evicted', 'False')
    await it.cluster().delete('Pod', { namespace: testNamespace, name: metadata.name })
    await it.when('evicted', hasCondition('Ready', 'NodeLost'))
    await editSpec(it.cluster(), 'evicted', spec => ({ ...spec, size: { name: 'large', version: 1 } }))
    const waiting = await it.when('evicted', hasCondition('Progressing', 'NodeLost'))
    expect(waiting.status?.instances).toMatchObject([{ node: name }])
    expect((await podsOf('evicted')).map(pod => pod.metadata.uid)).toEqual([metadata.uid])

    await it.cluster().replace('Node', { ...(await node()), spec: { taints: [taint] } })
    const pod = await podOf('evicted')
    await it.cluster().replace('Pod', { ...pod, metadata: { ...pod.metadata, finalizers: [] } })
    await it.when('evicted', found => isPhase('available')(found) && found.status?.operation === undefined)
    expect((await podsOf('evicted')).map(each => each.metadata.uid)).not.toEqual([metadata.uid])
  })

  test('reports the same for a suspension and a deletion that wait for it', async () => {
    await it.create('leaving')
    const { metadata } = await podOf('leaving')
    const withFinalizer = {
      ...(await podOf('leaving')),
      metadata: { ...metadata, finalizers: ['example.com/kubelet'] },
    }
    await it.cluster().replace('Pod', withFinalizer)
    await setHeartbeat('Unknown')
    await setReady('leaving', 'False')
    await it.when('leaving', hasCondition('Ready', 'NodeLost'))
    await editSpec(it.cluster(), 'leaving', spec => ({ ...spec, suspended: true }))
    await it.when('leaving', hasCondition('Progressing', 'NodeLost'))
    await it.cluster().delete('ManagedDatabase', { namespace: testNamespace, name: 'leaving' })
    await it.when(
      'leaving',
      found =>
        condition(found, 'Progressing')?.message.includes(outOfServiceTaint) === true && isPhase('deleting')(found),
    )
    expect(await it.child('PersistentVolumeClaim', 'leaving', 'claim')).toBeDefined()
    const pod = await podOf('leaving')
    await it.cluster().replace('Pod', { ...pod, metadata: { ...pod.metadata, finalizers: [] } })
    await it.untilDeleted('leaving')
  })

  test('is not read if the pod is healthy, and a node that cannot be read is no error', async () => {
    await it.cluster().delete('Node', { name })
    await it.create('nodeless')
    await setReady('nodeless', 'False')
    await it.when('nodeless', hasCondition('Ready', 'PodNotReady'))
    await setReady('nodeless', 'True')
    await it.when('nodeless', isPhase('available'))
    await it.cluster().create('Node', { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: {} })
    await setHeartbeat('True')
  })
})

const taint = { key: outOfServiceTaint, value: 'nodeshutdown', effect: 'NoExecute' }

describe('the state of a node', () => {
  const reported = (status: Node['status'], taints: object[] = []) =>
    lostNode(
      nodeFacts({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'n' },
        spec: { taints } as Node['spec'] & object, // as much of a taint as is read
        ...(status && { status }),
      }),
    )?.message
  test.each([
    ['is ready', reported(heartbeat('True')), undefined],
    ['is not ready, as its kubelet reports', reported(heartbeat('False')), undefined],
    ['has reported nothing yet', reported(undefined), undefined],
    ['is silent', reported(heartbeat('Unknown')), /may still run there.*certain that its machine is off/],
    [
      'is silent since an unknown time',
      reported({ conditions: [{ type: 'Ready', status: 'Unknown' }] }),
      /^node n has not responded, and Postgres may still run there/,
    ],
    ['is silent and tainted as out of service', reported(heartbeat('Unknown'), [taint]), /deletes its pod/],
  ])('that %s', (_, message, expected) => {
    if (expected === undefined) expect(message).toBeUndefined()
    else expect(message).toMatch(expected)
  })
})
