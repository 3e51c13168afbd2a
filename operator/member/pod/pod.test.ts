import { describe, expect, test } from 'vitest'
import type { Pod } from '../../../cluster/index.ts'
import { podFacts } from './pod.ts'

const pod = (status: object): Pod => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', uid: 'u' }, status })
const container = (name: string, state: object, more: object = {}) => ({
  name,
  image: '',
  imageID: '',
  ready: false,
  restartCount: 0,
  state,
  ...more,
})
const postgres = (state: object, more: object = {}) =>
  pod({ podIP: '10.0.0.1', containerStatuses: [container('postgres', state, more)] })
const prepare = (state: object, more: object = {}) =>
  pod({ initContainerStatuses: [container('prepare', state, more)] })

describe('a pod', () => {
  test('is healthy even if its agent fails', () => {
    const serving = container('postgres', { running: { startedAt: '2026-01-01T00:00:00Z' } }, { ready: true })
    const crashing = container(
      'agent',
      { waiting: { reason: 'CrashLoopBackOff' } },
      {
        lastState: { terminated: { exitCode: 64 } },
      },
    )
    const conditions = ['ContainersReady', 'Ready'].map(type => ({ type, status: 'False' }))
    const facts = podFacts(pod({ podIP: '10.0.0.1', containerStatuses: [serving, crashing], conditions }))
    const alone = podFacts(pod({ podIP: '10.0.0.1', containerStatuses: [serving] }))
    expect(facts).toEqual(alone)
    expect(facts).toMatchObject({ ready: true, isNodeSilent: false, problem: undefined, isStuck: false })
    // The node does not respond: then the cluster changes only this condition.
    const silent = pod({ podIP: '10.0.0.1', containerStatuses: [serving], conditions: conditions.slice(1) })
    expect(podFacts(silent)).toMatchObject({ ready: false, isNodeSilent: true })
  })

  test('has an address only while its Postgres runs', () => {
    expect(podFacts(postgres({ running: { startedAt: '2026-01-01T00:00:00Z' } })).address).toBe('10.0.0.1')
    expect(podFacts(postgres({ waiting: { reason: 'PodInitializing' } })).address).toBeUndefined()
    expect(podFacts(postgres({ terminated: { exitCode: 0 } })).address).toBeUndefined()
  })

  test('has a new run after each start of Postgres, but not when Postgres becomes ready', () => {
    const run = (more: object, startedAt = '2026-01-01T00:00:00Z') =>
      podFacts(postgres({ running: { startedAt } }, more)).run
    expect(run({ ready: true })).toBe(run({ ready: false }))
    expect(run({ restartCount: 1 })).not.toBe(run({}))
    expect(run({}, '2026-01-01T00:00:01Z')).not.toBe(run({}))
  })

  test.each<[string, Pod, object | undefined]>([
    ['runs', postgres({ running: {} }), undefined],
    ['starts', postgres({ waiting: { reason: 'PodInitializing' } }), undefined],
    [
      'has crashed before and runs',
      postgres({ running: {} }, { lastState: { terminated: { exitCode: 1 } } }),
      undefined,
    ],
    [
      'cannot pull its image',
      postgres({ waiting: { reason: 'ImagePullBackOff', message: 'no such image' } }),
      { reason: 'ImagePullBackOff', message: 'no such image', diskFull: false },
    ],
    [
      'crashes',
      postgres(
        { waiting: { reason: 'CrashLoopBackOff' } },
        { lastState: { terminated: { exitCode: 1, message: 'a\nFATAL:  b\n' } } },
      ),
      { reason: 'CrashLoopBackOff', message: 'postgres ended with exit code 1: FATAL:  b', diskFull: false },
    ],
    [
      'reports that another process uses its port',
      postgres(
        { waiting: { reason: 'CrashLoopBackOff' } },
        {
          lastState: {
            terminated: {
              exitCode: 1,
              message: [
                '2026-11-21 05:03:15.021 UTC [1:2] XX000 LOG:  could not bind IPv4 address "127.9.9.9": Address already in use',
                '2026-11-21 05:03:15.021 UTC [1:3] XX000 HINT:  Is another postmaster already running on port 5432?',
                '2026-11-21 05:03:15.021 UTC [1:5] XX000 FATAL:  could not create any TCP/IP sockets',
                '2026-11-21 05:03:15.022 UTC [1:6] 00000 LOG:  database system is shut down',
              ].join('\n'),
            },
          },
        },
      ),
      { reason: 'AddressInUse', message: expect.stringContaining('port 5432 of 127.9.9.9, or of every address') },
    ],
    [
      'logs further messages after the reason',
      postgres({
        terminated: {
          exitCode: 1,
          message: [
            '2026-11-21 05:03:15.021 UTC [1:5] XX000 FATAL:  could not map anonymous shared memory',
            '2026-11-21 05:03:15.021 UTC [9:1] 57P03 [user=app db=app client=10.0.0.2] FATAL:  the database system is starting up',
            '2026-11-21 05:03:15.022 UTC [1:6] 00000 LOG:  database system is shut down',
          ].join('\n'),
        },
      }),
      { message: 'postgres ended with exit code 1: FATAL:  could not map anonymous shared memory' },
    ],
    [
      'logs its last messages to the volume',
      postgres({
        terminated: {
          exitCode: 1,
          message: [
            '2026-11-21 05:03:15.021 UTC [1:1] 00000 LOG:  redirecting log output to logging collector process',
            '2026-11-21 05:03:15.021 UTC [1:2] 00000 HINT:  Future log output will appear in directory "/x".',
          ].join('\n'),
        },
      }),
      { reason: 'ContainerFailed', message: 'postgres ended with exit code 1' },
    ],
    [
      'has no space left',
      postgres({ terminated: { exitCode: 2, message: 'PANIC:  could not write: No space left on device' } }),
      { reason: 'ContainerFailed', diskFull: true },
    ],
    [
      'has a volume that `prepare` refuses',
      prepare({
        terminated: { exitCode: 20, message: JSON.stringify({ reason: 'other-database', message: 'not ours' }) },
      }),
      { refusal: 'other-database', message: 'prepare ended with exit code 20: not ours' },
    ],
    ['has a full volume', prepare({ terminated: { exitCode: 31 } }), { refusal: 'disk-full', diskFull: true }],
    [
      'is not scheduled',
      pod({ conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes' }] }),
      { reason: 'Unschedulable', message: '0/3 nodes' },
    ],
  ])('that %s', (_, subject, expected) => {
    const { problem } = podFacts(subject)
    if (expected === undefined) expect(problem).toBeUndefined()
    else expect(problem).toMatchObject(expected)
  })
})
