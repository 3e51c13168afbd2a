/** Tests when a restore treats a Postgres as stopped, and how the lock prevents its start. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Pod, StatefulSet } from '../../../cluster/index.ts'
import { apiVersion, childNames, labels, type Restore } from '../../../crds/index.ts'
import { type Installation, openInstallation, testNamespace } from '../../testing/installation.ts'
import { restore } from '../../testing/observed-restore.ts'
import { lock, lockOf, stopOf } from './lock.ts'

let installation: Installation
beforeAll(async () => {
  installation = await openInstallation({ fakes: false })
  holder = await cluster().create('Restore', {
    ...{ apiVersion, kind: 'Restore', metadata: { name: 'back', namespace: testNamespace } },
    spec: { databaseName: 'one', databaseId: 'i', target: { backupName: 'one-1' } },
  })
})
afterAll(() => installation.close())

const cluster = () => installation.cluster
let holder: Restore
const of = (id: string) => ({ namespace: testNamespace, id, incarnation: 1, number: 0 })
const template: NonNullable<StatefulSet['spec']>['template'] = {
  metadata: { labels: { app: 'x' } },
  spec: { containers: [{ name: 'postgres', image: 'postgres:18', resources: { requests: { cpu: '1' } } }] },
}

async function set(id: string, replicas: number, status?: StatefulSet['status']): Promise<void> {
  const made = await cluster().create('StatefulSet', {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: childNames.statefulSet(id, 1), namespace: testNamespace },
    spec: { replicas, serviceName: 'x', selector: { matchLabels: { app: 'x' } }, template },
  })
  if (status !== undefined) await cluster().replaceStatus('StatefulSet', { ...made, status })
}
const pod = (id: string, metadata: Partial<Pod['metadata']> = {}) =>
  cluster().create('Pod', {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: childNames.pod(id, 1), namespace: testNamespace, ...metadata },
    spec: { containers: [{ name: 'postgres', image: 'postgres:18' }] },
  })

describe('a Postgres', () => {
  test.each<[string, number, StatefulSet['status'], string]>([
    ['whose StatefulSet requests a pod counts as running', 1, { observedGeneration: 1, replicas: 0 }, 'running'],
    ['whose StatefulSet is not observed counts as running', 0, undefined, 'running'],
    [
      'whose StatefulSet was observed in an older generation counts as running',
      0,
      { observedGeneration: 0, replicas: 0 },
      'running',
    ],
    ['whose StatefulSet still has a pod counts as running', 0, { observedGeneration: 1, replicas: 1 }, 'running'],
    ['whose StatefulSet is scaled down has stopped', 0, { observedGeneration: 1, replicas: 0 }, 'stopped'],
  ])('%s', async (what, replicas, status, expected) => {
    const id = what.replaceAll(/[^a-z]/g, '').slice(-30)
    await set(id, replicas, status)
    expect(await stopOf(cluster(), of(id), holder)).toBe(expected)
  })

  test('with a pod counts as running, whatever its StatefulSet requests', async () => {
    await set('podded', 0, { observedGeneration: 1, replicas: 0 })
    const made = await pod('podded', { labels: { [labels.database]: 'podded' } })
    expect(await stopOf(cluster(), of('podded'), holder)).toBe('running')
    await lock(cluster(), of('podded'), holder)
    expect(await lockOf(cluster(), of('podded'), holder)).toBeUndefined()
    await cluster().delete('Pod', made.metadata)
    expect(await stopOf(cluster(), of('podded'), holder)).toBe('stopped')
  })

  test('without a StatefulSet counts as locked', async () => {
    expect(await stopOf(cluster(), of('bare'), holder)).toBe('locked')
    await lock(cluster(), of('bare'), holder)
    expect(await lockOf(cluster(), of('bare'), holder)).toBeUndefined()
  })

  test('under a lock cannot be started by a stale controller; another restore does not hold the lock', async () => {
    await set('held', 0, { observedGeneration: 1, replicas: 0 })
    await lock(cluster(), of('held'), holder)
    await lock(cluster(), of('held'), holder)
    expect(await stopOf(cluster(), of('held'), holder)).toBe('locked')
    await expect(pod('held')).rejects.toMatchObject({ reason: 'AlreadyExists' })
    expect(await stopOf(cluster(), of('held'), restore(undefined, { uid: 'other' }))).toBe('running')
    const blocked = await lockOf(cluster(), of('held'), holder)
    expect(blocked?.spec).toMatchObject({
      schedulingGates: [{ name: 'espalier.dev/lock' }],
      containers: [{ image: 'postgres:18', command: ['false'], resources: { requests: { cpu: '1' } } }],
    })
    expect(blocked?.spec?.volumes).toBeUndefined()
    expect(blocked?.metadata.ownerReferences).toMatchObject([{ kind: 'Restore', uid: holder.metadata.uid }])
  })
})
