/** How long a backup waits for a database that does not serve or does not answer, and what it says meanwhile. */
import { describe, expect, test } from 'vitest'
import { conditionOf } from '../../objects/conditions.ts'
import {
  ago,
  backup,
  database,
  deadlines,
  now,
  observed,
  ofBranch,
  ready,
  source,
} from '../../testing/observed-backup.ts'
import type { CheckpointFacts, Observed } from '../observed.ts'
import { plan } from './index.ts'

const told = (more: Partial<Observed>) => {
  const { actions, status, wakeAt } = plan(observed(more), now, deadlines)
  return {
    does: actions.map(action => action.do),
    phase: status.phase,
    reason: conditionOf(status, 'Progressing')?.reason,
    since: conditionOf(status, 'DatabaseServing')?.lastTransitionTime,
    wakeAt,
  }
}
const refused = (agoMs: number, failures = 1): CheckpointFacts => ({
  ...{ state: 'unanswered', message: 'connect ECONNREFUSED', at: now - agoMs, failures },
})
const waitedSince = (ms: number, phase: 'pending' | 'running' = 'running') =>
  backup({
    phase,
    conditions: [
      {
        type: 'DatabaseServing',
        status: 'False',
        reason: 'NotServing',
        message: 'it does not',
        lastTransitionTime: ago(ms),
      },
    ],
  })
const asked = (ms: number) => backup(undefined, { creationTimestamp: ago(ms) })
const operation = (name: string, inMs: number) => ({
  operation: { taskId: 't', name, hash: 'h', startedAt: ago(0), deadlineAt: ago(-inMs) } as never,
})

describe('a database that is said to serve and does not answer', () => {
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof told>>]>([
    [
      'is waited for from now on, however long ago the backup was asked for',
      { backup: asked(10 ** 8), checkpoint: refused(0) },
      { does: [], phase: 'pending', reason: 'AwaitingDatabase', since: ago(0) },
    ],
    [
      'is asked again after a pause',
      { checkpoint: refused(250) },
      { does: ['checkpoint'], reason: 'AwaitingDatabase' },
    ],
    ['which grows', { checkpoint: refused(400, 2) }, { does: [], wakeAt: now + 100 }],
    ['to some seconds', { checkpoint: refused(5_000, 50) }, { does: ['checkpoint'] }],
    [
      'is waited for since it did not answer first',
      { backup: waitedSince(20_000), checkpoint: refused(0) },
      { phase: 'running', reason: 'AwaitingDatabase', since: ago(20_000) },
    ],
    [
      'up to the deadline',
      { backup: waitedSince(60_000), checkpoint: refused(0) },
      { does: [], phase: 'failed', reason: 'DatabaseNotServing', since: undefined },
    ],
    [
      'also where it is known meanwhile that it does not serve',
      { backup: waitedSince(59_000), ...source({ conditions: [ready('False', 10_000)] }) },
      { phase: 'running', wakeAt: now + 1_000 },
    ],
    [
      'is not said to have answered before it has',
      { backup: waitedSince(20_000), checkpoint: { state: 'running', since: now - 1_000 } },
      { reason: 'AwaitingDatabase', since: ago(20_000) },
    ],
    [
      'is said to write its checkpoint once that goes on, and gets no new deadline by that',
      { backup: waitedSince(20_000), checkpoint: { state: 'running', since: now - 10_000 } },
      { reason: 'Checkpointing', since: ago(20_000) },
    ],
    [
      'is waited for no more once it has answered',
      {
        backup: waitedSince(20_000),
        checkpoint: {
          state: 'succeeded',
          point: { systemIdentifier: '7', timeline: 1, startLsn: '0/1', endLsn: '0/2' },
        },
      },
      { does: ['create-snapshot'], since: undefined },
    ],
    [
      'nor is one whose pod is just being replaced failed at once, however long ago the backup was asked for',
      { backup: asked(10 ** 8), source: { ...source({}).source, isReachable: false } },
      { phase: 'pending', reason: 'AwaitingDatabase' },
    ],
  ])('%s', (_, more, expected) => {
    expect(told(more)).toMatchObject(expected)
  })
})

describe('a database that is expected to serve', () => {
  const down = [ready('False', 90_000)]
  const of = (more: object, spec = {}) => {
    const found = database({ conditions: down, ...more })
    return { ...source({}).source, database: { ...found, spec: { ...found.spec, ...spec } } }
  }
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof told>>]>([
    [
      'by an operation is waited for as long as that may take',
      { backup: asked(90_000), source: of(operation('create-managed', 500_000)) },
      { phase: 'pending', wakeAt: now + 500_000 },
    ],
    [
      'but not for a restore, which may wait for the backup',
      { backup: asked(90_000), source: of(operation('restore-managed', 500_000)) },
      { phase: 'failed', reason: 'DatabaseNotServing' },
    ],
    [
      'is none that is being suspended',
      { backup: asked(90_000), source: of(operation('update-managed', 500_000), { suspended: true }) },
      { phase: 'failed', reason: 'DatabaseNotServing' },
    ],
    [
      'is a branch that served before, whatever is told of it',
      { ...ofBranch({ phase: 'failed', connectableAt: ago(10 ** 7), conditions: [ready('False', 5_000)] }) },
      { phase: 'pending', reason: 'AwaitingDatabase', wakeAt: now + 59_000 },
    ],
  ])('%s', (_, more, expected) => {
    expect(told(more)).toMatchObject(expected)
  })
})
