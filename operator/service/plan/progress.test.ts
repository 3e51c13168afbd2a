/** When a service's workload is ready, and when it has failed. */
import { expect, test } from 'vitest'
import type { Deployment } from '../../../cluster/index.ts'
import type { ServicePod } from '../observed.ts'
import { progressOf } from './progress.ts'

const created = Date.parse('2026-01-01T00:00:00Z')
const workload = { type: 'rest', digest: '0123456789' } as const
const deployment = (status: Deployment['status'], replicas = 1): Deployment =>
  ({
    ...{ apiVersion: 'apps/v1', kind: 'Deployment' },
    metadata: { name: 'one', generation: 2, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { replicas },
    status,
  }) as Deployment
const seen = (readyReplicas: number, more: object = {}) => ({ observedGeneration: 2, readyReplicas, ...more })
const pod = (reason: string, restarts: number): ServicePod => ({
  ...{ name: 'pod', live: { namespace: 'one', uid: 'pod' }, ...workload },
  problem: { reason, message: 'why', restarts },
})
const blocked = {
  ...deployment(undefined).metadata,
  ...{ deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['example.com/held'] },
}
const quota = { conditions: [{ type: 'ReplicaFailure', status: 'True', message: 'exceeded quota' }] }

test.each<[string, Deployment, ServicePod[], number, ReturnType<typeof progressOf>]>([
  ['all pods are ready', deployment(seen(1)), [], 0, { state: 'ready' }],
  ['one of two is ready', deployment(seen(1), 2), [], 0, { state: 'starting', until: created + 60_000 }],
  ['one of two is ready after a minute', deployment(seen(1), 2), [], 60, { state: 'ready' }],
  [
    'its controller has not observed it',
    deployment({ ...seen(1), observedGeneration: undefined }),
    [],
    1,
    { state: 'starting', until: created + 60_000 },
  ],
  [
    'a pod crashes for the second time',
    deployment(seen(0)),
    [pod('CrashLoopBackOff', 2)],
    1,
    { state: 'starting', until: created + 60_000 },
  ],
  [
    'a pod crashes repeatedly',
    deployment(seen(0)),
    [pod('CrashLoopBackOff', 3)],
    1,
    { state: 'failed', message: 'a container was restarted 3 times: why' },
  ],
  [
    'its image is missing',
    deployment(seen(0)),
    [pod('ErrImagePull', 0)],
    60,
    { state: 'failed', message: 'ErrImagePull: why' },
  ],
  [
    'a quota refuses its pods',
    deployment(seen(0, quota)),
    [],
    60,
    { state: 'failed', message: 'the cluster refuses its pods: exceeded quota' },
  ],
  [
    'its Deployment is being deleted, and a finalizer blocks that',
    { ...deployment(seen(1)), metadata: blocked },
    [],
    60,
    {
      state: 'failed',
      message: 'Deployment one is being deleted, and waits for its finalizers: example.com/held',
    },
  ],
  ['nothing is known', deployment(undefined), [], 60, { state: 'failed', message: 'no pod was ready after 60 s' }],
])('%s', (_, found, pods, seconds, expected) => {
  const now = created + seconds * 1000
  const facts = { deployment: found, pods, notRunningSince: created, isServing: false, awaitsPostgres: false }
  expect(progressOf(facts, workload, now)).toEqual(expected)
})

test('a service that is no longer ready has one minute to become ready again', () => {
  const notRunningSince = created + 3600_000
  const facts = { deployment: deployment(seen(0)), pods: [], notRunningSince, isServing: true, awaitsPostgres: false }
  expect(progressOf(facts, workload, notRunningSince)).toEqual({ state: 'starting', until: notRunningSince + 60_000 })
})

test('pods with another image have ten minutes while the previous pods serve', () => {
  const of = (image: string, status: Deployment['status']): Deployment => {
    const found = deployment(status)
    return { ...found, spec: { replicas: 1, template: { spec: { containers: [{ image }] } } } as Deployment['spec'] }
  }
  const after = (seconds: number, replaces: Deployment) => {
    const facts = {
      deployment: of('next', seen(0)),
      pods: [],
      notRunningSince: created,
      replaces,
      isServing: false,
      awaitsPostgres: false,
    }
    return progressOf(facts, workload, created + seconds * 1000)
  }
  const until = created + 600_000
  expect(after(599, of('before', seen(1)))).toEqual({ state: 'starting', until })
  expect(after(600, of('before', seen(1)))).toEqual({ state: 'failed', message: 'no pod was ready after 600 s' })
  expect(after(60, of('next', seen(1)))).toMatchObject({ state: 'failed' })
  expect(after(60, of('before', seen(0)))).toMatchObject({ state: 'failed' })
})

test('a service that serves continues with its ready pods', () => {
  const facts = { pods: [], notRunningSince: created, isServing: true, awaitsPostgres: false }
  const drained = deployment(seen(1), 2)
  // The Deployment controller has not observed the second desired pod yet.
  const scaled = { ...drained, metadata: { ...drained.metadata, generation: 3 } }
  for (const found of [drained, scaled])
    expect(progressOf({ ...facts, deployment: found }, workload, created)).toEqual({ state: 'ready' })
  expect(progressOf({ ...facts, deployment: deployment(seen(0), 2) }, workload, created).state).toBe('starting')
})
