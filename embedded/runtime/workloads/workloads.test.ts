/** Workloads as real processes: how they start, are replaced, fail and end. */
import { describe, expect, test } from 'vitest'
import type { Cluster, Deployment, Job } from '../../../cluster/index.ts'
import {
  key,
  namespace,
  openTestCluster,
  ready,
  script,
  statefulSet,
  staying,
  text,
  until,
  untilPod,
} from '../testing/runtime.ts'

describe('a StatefulSet', () => {
  test('starts its process in milliseconds, and then has a ready pod and an updated status', async () => {
    const { cluster, runtime } = await openTestCluster()
    const begin = performance.now()
    await cluster.create('StatefulSet', statefulSet('db', { containers: [script(staying)] }))
    const up = await untilPod(cluster, 'db-0', ready)
    const elapsed = performance.now() - begin
    expect(up.metadata.ownerReferences?.[0]).toMatchObject({ kind: 'StatefulSet', name: 'db', controller: true })
    expect(up.status).toMatchObject({ phase: 'Running', podIP: expect.stringMatching(/^127\.\d+\.\d+\.\d+$/) })
    expect(elapsed).toBeLessThan(500)
    await until(async () => (await cluster.get('StatefulSet', key('db')))?.status?.readyReplicas === 1)
    expect((await cluster.get('StatefulSet', key('db')))?.status).toMatchObject({
      ...{ observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
      updateRevision: up.metadata.labels?.['controller-revision-hash'],
      currentRevision: up.metadata.labels?.['controller-revision-hash'],
    })
    await until(async () => (await runtime.logs(key('db-0'))).length > 0)
    expect(text((await runtime.logs(key('db-0')))[0] ?? '')).toMatch(/^up \d+$/)
  })

  test('a deleted pod ends first, and is replaced by another', async () => {
    const { cluster, runtime } = await openTestCluster()
    const source = `process.on('SIGTERM', () => { console.log('bye'); process.exit(0) }); ${staying}`
    await cluster.create('StatefulSet', statefulSet('db', { containers: [script(source)] }))
    const first = await untilPod(cluster, 'db-0', ready)
    await until(async () => (await runtime.logs(key('db-0'))).length > 0)
    await cluster.delete('Pod', key('db-0'))
    const second = await untilPod(cluster, 'db-0', found => found.metadata.uid !== first.metadata.uid && ready(found))
    expect(second.status?.podIP).not.toBe(first.status?.podIP)
    await until(async () => (await runtime.logs(key('db-0'))).length === 3)
    expect((await runtime.logs(key('db-0'))).map(line => text(line).split(' ')[0])).toEqual(['up', 'bye', 'up'])
  })

  test('is deleted with its pods, and scales to zero and back', async () => {
    const { cluster } = await openTestCluster()
    const created = await cluster.create('StatefulSet', statefulSet('db', { containers: [script(staying)] }))
    await untilPod(cluster, 'db-0', ready)
    await cluster.apply('StatefulSet', statefulSet('db', { containers: [script(staying)] }, { replicas: 0 }))
    await until(async () => (await cluster.get('Pod', key('db-0'))) === undefined)
    await until(async () => (await cluster.get('StatefulSet', key('db')))?.status?.replicas === 0)
    await cluster.apply('StatefulSet', statefulSet('db', { containers: [script(staying)] }, { replicas: 2 }))
    await untilPod(cluster, 'db-1', ready)
    await cluster.delete('StatefulSet', key('db'), { uid: created.metadata.uid })
    await until(async () => (await cluster.list('Pod', { namespace })).items.length === 0)
  })

  test('OnDelete keeps a pod of the old template until it is deleted', async () => {
    const { cluster } = await openTestCluster()
    await cluster.create('StatefulSet', statefulSet('db', { containers: [script(staying)] }))
    const first = await untilPod(cluster, 'db-0', ready)
    const changed = statefulSet('db', { containers: [script(staying, { env: [{ name: 'NEW', value: '1' }] })] })
    await cluster.apply('StatefulSet', changed)
    await until(async () => (await cluster.get('StatefulSet', key('db')))?.status?.updatedReplicas === 0)
    const status = (await cluster.get('StatefulSet', key('db')))?.status
    expect(status?.currentRevision).not.toBe(status?.updateRevision)
    await cluster.delete('Pod', key('db-0'), { uid: first.metadata.uid })
    const second = await untilPod(cluster, 'db-0', found => found.metadata.uid !== first.metadata.uid && ready(found))
    expect(second.spec?.containers[0]?.env?.[0]?.name).toBe('NEW')
    await until(async () => {
      const now = (await cluster.get('StatefulSet', key('db')))?.status
      return now?.currentRevision === now?.updateRevision
    })
  })
})

describe('a Deployment', () => {
  const deployment = (command: string, replicas = 1): Deployment => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace },
    spec: {
      replicas,
      selector: { matchLabels: { app: 'web' } },
      template: {
        metadata: { labels: { app: 'web' } },
        spec: { terminationGracePeriodSeconds: 5, containers: [script(command)] },
      },
    },
  })

  test('reports that a quota refuses its pods, and creates them once the quota allows it', async () => {
    const { cluster } = await openTestCluster()
    await cluster.create('ResourceQuota', {
      ...{ apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'none', namespace } },
      spec: { hard: { pods: '0' } },
    })
    await cluster.create('Deployment', deployment(staying))
    const failure = async () => {
      const { status } = (await cluster.get('Deployment', key('web'))) ?? {}
      return status?.conditions?.find(({ type }) => type === 'ReplicaFailure')
    }
    await until(async () => (await failure()) !== undefined)
    expect(await failure()).toMatchObject({ status: 'True', message: expect.stringContaining('exceeded quota: none') })
    await cluster.delete('ResourceQuota', key('none'))
    await until(async () => (await cluster.get('Deployment', key('web')))?.status?.readyReplicas === 1)
    expect(await failure()).toBeUndefined()
  })

  test('replaces its pods and always has a ready one', async () => {
    const { cluster } = await openTestCluster()
    await cluster.create('Deployment', deployment(staying, 2))
    await until(async () => (await cluster.get('Deployment', key('web')))?.status?.availableReplicas === 2)
    const before = (await cluster.list('Pod', { namespace })).items.map(found => found.metadata.uid)
    await cluster.apply('Deployment', deployment(`// new\n${staying}`, 2))
    let least = 2
    await until(async () => {
      const pods = (await cluster.list('Pod', { namespace })).items
      least = Math.min(least, pods.filter(found => ready(found) && !found.metadata.deletionTimestamp).length)
      return pods.length === 2 && pods.every(found => ready(found) && !before.includes(found.metadata.uid))
    })
    expect(least).toBe(2)
    await until(async () => {
      const conditions = (await cluster.get('Deployment', key('web')))?.status?.conditions
      return conditions?.some(({ reason }) => reason === 'NewReplicaSetAvailable') === true
    })
  })
})

describe('a Job', () => {
  const job = (source: string, spec: object = {}): Job => ({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'job', namespace },
    spec: { template: { spec: { restartPolicy: 'Never', containers: [script(source)] } }, ...spec },
  })
  const jobLimits = { retryMs: 20, mostRetryMs: 100 }
  const condition = async (cluster: Cluster) => (await cluster.get('Job', key('job')))?.status?.conditions?.[0]

  test('is complete when its pod has succeeded, and is removed when its TTL expires', async () => {
    const { cluster } = await openTestCluster()
    await cluster.create('Job', job('', { ttlSecondsAfterFinished: 1 }))
    await until(async () => (await condition(cluster))?.type === 'Complete')
    expect((await cluster.get('Job', key('job')))?.status).toMatchObject({ succeeded: 1, failed: 0, active: 0 })
    await until(async () => (await cluster.get('Job', key('job'))) === undefined)
    await until(async () => (await cluster.list('Pod', { namespace })).items.length === 0)
  })

  test('retries as often as allowed, then fails', async () => {
    const { cluster } = await openTestCluster({ jobLimits })
    await cluster.create('Job', job('process.exit(3)', { backoffLimit: 2 }))
    await until(async () => (await condition(cluster))?.type === 'Failed')
    expect(await condition(cluster)).toMatchObject({ reason: 'BackoffLimitExceeded' })
    const pods = (await cluster.list('Pod', { namespace })).items
    expect(pods.map(found => found.status?.containerStatuses?.[0]?.state?.terminated?.exitCode)).toEqual([3, 3, 3])
  })

  test('is ended at its deadline', async () => {
    const { cluster } = await openTestCluster()
    await cluster.create('Job', job(staying, { activeDeadlineSeconds: 1 }))
    await until(async () => (await condition(cluster))?.type === 'Failed')
    expect(await condition(cluster)).toMatchObject({ reason: 'DeadlineExceeded' })
    await until(async () => (await cluster.list('Pod', { namespace })).items.length === 0)
  })
})
