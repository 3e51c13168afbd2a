/** Tables for the workloads' plans: from pods to actions and status. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Deployment, Job, Pod, StatefulSet } from '../../../cluster/index.ts'
import { planDeployment } from './deployment.ts'
import { defaultJobLimits, planJob } from './job.ts'
import { planStatefulSet } from './stateful-set.ts'
import { type PodAction, revisionOf } from './template.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const at = (seconds: number): string => new Date(now + seconds * 1000).toISOString().replace('.000', '')
const template = { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'main', image: 'i' }] } }
const metadata = { name: 'x', namespace: 'n', uid: 'u', generation: 3 }
const selector = { matchLabels: { app: 'x' } }

type Brief = {
  name: string
  ready?: boolean
  phase?: string
  terminating?: boolean
  revision?: string
  restarts?: number
}
const podOf = ({ name, ready = false, phase = 'Running', terminating, revision = '', restarts = 0 }: Brief): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name,
    namespace: 'n',
    labels: { 'controller-revision-hash': revision, 'pod-template-hash': revision },
    ...(terminating && { deletionTimestamp: at(0) }),
  },
  status: {
    phase,
    conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    containerStatuses: [
      {
        ...{ name: 'main', image: 'i', imageID: '', ready, restartCount: restarts },
        state: phase === 'Failed' ? { terminated: { exitCode: 1, finishedAt: at(-5) } } : {},
      },
    ],
  },
})
const summaryOf = (actions: PodAction[]): string[] =>
  actions.map(action => `${action.do} ${action.pod.metadata.name.replace(/-[a-z0-9]{10}-.*/, '')}`)

test('a revision depends only on the template, whatever the order of its fields', () => {
  expect(revisionOf({ spec: template.spec, metadata: template.metadata })).toBe(revisionOf(template))
  expect(revisionOf({ ...template, metadata: { labels: { app: 'y' } } })).not.toBe(revisionOf(template))
})

describe('planStatefulSet', () => {
  const set = (spec: Partial<StatefulSet['spec']> = {}): StatefulSet => ({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata,
    spec: { serviceName: 'x', selector, template, replicas: 2, ...spec },
  })
  const current = `x-${revisionOf(template)}`
  const zero = { name: 'x-0', revision: current, ready: true }
  const one = { name: 'x-1', revision: current, ready: true }
  const parallel = { podManagementPolicy: 'Parallel' }
  const onDelete = { updateStrategy: { type: 'OnDelete' } }
  test.each<[string, Partial<StatefulSet['spec']>, Brief[], string[]]>([
    ['no pods: the first is created', {}, [], ['create x-0']],
    ['Parallel: all pods are created at once', parallel, [], ['create x-0', 'create x-1']],
    ['the next pod waits until the first is ready', {}, [{ ...zero, ready: false }], []],
    ['the next pod is created', {}, [zero], ['create x-1']],
    ['a missing pod in the middle is created', {}, [one], ['create x-0']],
    ['a pod name is free only when its pod is deleted', {}, [{ ...zero, terminating: true }, one], []],
    ['a pod that has ended is replaced', {}, [{ ...zero, ready: false, phase: 'Failed' }, one], ['delete x-0']],
    ['too many pods: the last is deleted first', { replicas: 0 }, [zero, one], ['delete x-1']],
    [
      'Parallel: too many pods are deleted at once',
      { replicas: 0, ...parallel },
      [zero, one],
      ['delete x-1', 'delete x-0'],
    ],
    [
      'outdated pods are replaced from the last',
      {},
      [
        { ...zero, revision: 'old' },
        { ...one, revision: 'old' },
      ],
      ['delete x-1'],
    ],
    [
      'the next outdated pod is deleted when the last is ready',
      {},
      [{ ...zero, revision: 'old' }, one],
      ['delete x-0'],
    ],
    [
      'the next outdated pod is not deleted before the last is ready',
      {},
      [
        { ...zero, revision: 'old' },
        { ...one, ready: false },
      ],
      [],
    ],
    ['OnDelete: outdated pods are not deleted', onDelete, [{ ...zero, revision: 'old' }, one], []],
  ])('%s', (_, spec, pods, actions) => {
    expect(summaryOf(planStatefulSet(set(spec), pods.map(podOf), 'node').actions)).toEqual(actions)
  })
  test('a set that is being deleted creates nothing', () => {
    const deleted = { ...set(), metadata: { ...metadata, deletionTimestamp: at(0) } }
    expect(planStatefulSet(deleted, [], 'node').actions).toEqual([])
  })
  test('the status has the numbers of pods, and its current revision changes when all pods are updated', () => {
    const before = { ...set(), status: { replicas: 2, currentRevision: 'old' } }
    const mixed = planStatefulSet(before, [podOf({ ...zero, revision: 'old' }), podOf(one)], 'node').status
    expect(mixed).toMatchObject({
      currentRevision: 'old',
      updateRevision: current,
      currentReplicas: 1,
      updatedReplicas: 1,
    })
    const done = planStatefulSet(before, [podOf(zero), podOf(one)], 'node').status
    expect(done).toMatchObject({ currentRevision: current, readyReplicas: 2, observedGeneration: 3 })
  })
})

describe('planDeployment', () => {
  const deployment = (spec: Partial<Deployment['spec']> = {}, status?: Deployment['status']): Deployment => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata,
    spec: { selector, template, replicas: 1, ...spec },
    ...(status && { status }),
  })
  const revision = revisionOf(template)
  const plan = (described: Deployment, pods: Brief[], time = now) =>
    planDeployment({ deployment: described, pods: pods.map(podOf), nodeName: 'node', now: time, random: Math.random })
  const old = { name: 'old', revision: 'old', ready: true }
  const fresh = { name: 'new', revision, ready: true }
  const recreate = { strategy: { type: 'Recreate' } }
  test.each<[string, Partial<Deployment['spec']>, Brief[], string[]]>([
    ['no pods: one is created', {}, [], ['create x']],
    ['a new pod is created beside the old one', {}, [old], ['create x']],
    ['the old pod remains until the new one is ready', {}, [old, { ...fresh, ready: false }], []],
    ['the old pod is deleted once the new one is ready', {}, [old, fresh], ['delete old']],
    ['an old pod that is not ready is deleted at once', {}, [{ ...old, ready: false }], ['create x', 'delete old']],
    [
      'too many pods: those that are not ready are deleted first',
      {},
      [fresh, { ...fresh, name: 'spare', ready: false }],
      ['delete spare'],
    ],
    ['scaled to zero', { replicas: 0 }, [fresh], ['delete new']],
    ['a pod that has ended is replaced', {}, [{ ...fresh, ready: false, phase: 'Failed' }], ['create x', 'delete new']],
    ['Recreate: old pods are deleted first', recreate, [old], ['delete old']],
    ['Recreate: no pod is created until the old pods are deleted', recreate, [{ ...old, terminating: true }], []],
    [
      'no surge: the old pod is deleted first',
      { strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } } },
      [old],
      ['delete old'],
    ],
    [
      'neither surge nor unavailability: one pod may be unavailable',
      { strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 0 } } },
      [old],
      ['delete old'],
    ],
  ])('%s', (_, spec, pods, actions) => {
    expect(summaryOf(plan(deployment(spec), pods).actions)).toEqual(actions)
  })
  test('a rollout without progress fails at its deadline, and is checked again then', () => {
    const first = plan(deployment({ progressDeadlineSeconds: 60 }), [{ ...fresh, ready: false }])
    expect(first.requeueAfterMs).toBe(61_000)
    const stuck = deployment({ progressDeadlineSeconds: 60 }, first.status)
    const later = plan(stuck, [{ ...fresh, ready: false }], now + 61_000).status
    expect(later.conditions).toMatchObject([
      { type: 'Available', status: 'False' },
      { reason: 'ProgressDeadlineExceeded' },
    ])
  })
  test('with any pods: never fewer ready pods, and never more pods, than allowed', () => {
    const brief = fc.record({
      name: fc.string({ minLength: 1, maxLength: 4 }),
      ready: fc.boolean(),
      terminating: fc.boolean(),
      revision: fc.constantFrom(revision, 'old'),
    })
    fc.assert(
      fc.property(fc.array(brief, { maxLength: 8 }), fc.nat(4), (pods, replicas) => {
        const { actions } = plan(
          deployment({ replicas }),
          pods.map(pod => ({ ...pod, ready: pod.ready && !pod.terminating })),
        )
        const surge = Math.ceil(replicas / 4)
        const active = pods.filter(pod => !pod.terminating)
        const created = actions.filter(action => action.do === 'create').length
        expect(active.length + created).toBeLessThanOrEqual(Math.max(active.length, replicas + surge))
        const readyBefore = active.filter(pod => pod.ready).length
        const removedReady = actions.filter(
          action => action.do === 'delete' && action.pod.status?.conditions?.[0]?.status === 'True',
        ).length
        const surplusNew = Math.max(0, active.filter(pod => pod.revision === revision).length - replicas)
        expect(readyBefore - removedReady).toBeGreaterThanOrEqual(
          Math.min(readyBefore, replicas - Math.floor(replicas / 4)) - surplusNew,
        )
      }),
    )
  })
})

describe('planJob', () => {
  const job = (spec: object = {}, status?: Job['status']): Job => ({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata,
    spec: { template, ...spec },
    ...(status && { status }),
  })
  const plan = (described: Job, pods: Brief[], time = now) =>
    planJob({
      ...{ job: described, pods: pods.map(podOf), nodeName: 'node', now: time },
      ...{ random: Math.random, limits: defaultJobLimits },
    })
  const failed = { name: 'f', phase: 'Failed' }
  test('starts one pod, and no second one next to it', () => {
    expect(plan(job(), []).actions.map(action => action.do)).toEqual(['create'])
    expect(plan(job(), []).status).toMatchObject({ startTime: at(0), active: 1 })
    expect(plan(job(), [{ name: 'r' }]).actions).toEqual([])
  })
  test('waits before another attempt, twice as long each time', () => {
    expect(plan(job(), [failed])).toMatchObject({ actions: [], requeueAfterMs: 5000 })
    expect(plan(job(), [failed, failed])).toMatchObject({ actions: [], requeueAfterMs: 15_000 })
    expect(plan(job(), [failed], now + 5000).actions).toHaveLength(1)
  })
  test('fails after too many attempts, even if failed pods were removed meanwhile', () => {
    expect(plan(job({ backoffLimit: 1 }), [failed, failed]).status.conditions).toMatchObject([
      { type: 'Failed', reason: 'BackoffLimitExceeded' },
    ])
    const status = { failed: 2, startTime: at(-60) }
    expect(plan(job({ backoffLimit: 1 }, status), []).status.conditions).toHaveLength(1)
  })
  test('restarts inside a pod count with the policy OnFailure', () => {
    const onFailure = {
      template: { ...template, spec: { ...template.spec, restartPolicy: 'OnFailure' } },
      backoffLimit: 2,
    }
    expect(plan(job(onFailure), [{ name: 'r', restarts: 1 }]).status.conditions).toBeUndefined()
    expect(summaryOf(plan(job(onFailure), [{ name: 'r', restarts: 2 }]).actions)).toEqual(['delete r'])
  })
  test('ends at its deadline, and is removed when its TTL expires', () => {
    const started = { startTime: at(-10) }
    expect(plan(job({ activeDeadlineSeconds: 30 }, started), [{ name: 'r' }]).requeueAfterMs).toBe(20_000)
    expect(plan(job({ activeDeadlineSeconds: 10 }, started), [{ name: 'r' }]).status.conditions).toMatchObject([
      { reason: 'DeadlineExceeded' },
    ])
    const complete = plan(job(), [{ name: 's', phase: 'Succeeded' }]).status
    expect(complete.conditions).toMatchObject([{ type: 'Complete', status: 'True' }])
    expect(plan(job({ ttlSecondsAfterFinished: 5 }, complete), [])).toMatchObject({
      expired: false,
      requeueAfterMs: 5000,
    })
    expect(plan(job({ ttlSecondsAfterFinished: 5 }, complete), [], now + 5000).expired).toBe(true)
  })
})
