/** How long a backup waits for a database that does not serve or does not answer, and what it reports meanwhile. */
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

const summaryOf = (more: Partial<Observed>) => {
  const { actions, status, requeueAt } = plan(observed(more), now, deadlines)
  return {
    does: actions.map(action => action.do),
    phase: status.phase,
    reason: conditionOf(status, 'Progressing')?.reason,
    since: conditionOf(status, 'DatabaseServing')?.lastTransitionTime,
    requeueAt,
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
const requestedBackup = (ms: number) => backup(undefined, { creationTimestamp: ago(ms) })
const operation = (name: string, inMs: number) => ({
  operation: { taskId: 't', name, hash: 'h', startedAt: ago(0), deadlineAt: ago(-inMs) } as never,
})

describe('a database that is reported as serving and does not answer', () => {
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof summaryOf>>]>([
    [
      'the wait begins now, however long ago the backup was requested',
      { backup: requestedBackup(10 ** 8), checkpoint: refused(0) },
      { does: [], phase: 'pending', reason: 'AwaitingDatabase', since: ago(0) },
    ],
    [
      'the checkpoint is requested again after a pause',
      { checkpoint: refused(250) },
      { does: ['checkpoint'], reason: 'AwaitingDatabase' },
    ],
    ['the pause grows with each failure', { checkpoint: refused(400, 2) }, { does: [], requeueAt: now + 100 }],
    ['the pause is at most some seconds', { checkpoint: refused(5_000, 50) }, { does: ['checkpoint'] }],
    [
      'the wait counts from the first request without an answer',
      { backup: waitedSince(20_000), checkpoint: refused(0) },
      { phase: 'running', reason: 'AwaitingDatabase', since: ago(20_000) },
    ],
    [
      'the backup fails at the deadline',
      { backup: waitedSince(60_000), checkpoint: refused(0) },
      { does: [], phase: 'failed', reason: 'DatabaseNotServing', since: undefined },
    ],
    [
      'the deadline does not change if the database is then reported as not serving',
      { backup: waitedSince(59_000), ...source({ conditions: [ready('False', 10_000)] }) },
      { phase: 'running', requeueAt: now + 1_000 },
    ],
    [
      'the condition reports the wait while a new request has no answer yet',
      { backup: waitedSince(20_000), checkpoint: { state: 'running', since: now - 1_000 } },
      { reason: 'AwaitingDatabase', since: ago(20_000) },
    ],
    [
      'the condition reports the checkpoint once it runs for some seconds, and the deadline does not change',
      { backup: waitedSince(20_000), checkpoint: { state: 'running', since: now - 10_000 } },
      { reason: 'Checkpointing', since: ago(20_000) },
    ],
    [
      'the wait ends with the answer',
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
      'a backup does not fail at once while the pod is being replaced, however long ago it was requested',
      { backup: requestedBackup(10 ** 8), source: { ...source({}).source, isReachable: false } },
      { phase: 'pending', reason: 'AwaitingDatabase' },
    ],
  ])('%s', (_, more, expected) => {
    expect(summaryOf(more)).toMatchObject(expected)
  })
})

describe('a database that is expected to serve', () => {
  const down = [ready('False', 90_000)]
  const of = (more: object, spec = {}) => {
    const found = database({ conditions: down, ...more })
    return { ...source({}).source, database: { ...found, spec: { ...found.spec, ...spec } } }
  }
  test.each<[string, Partial<Observed>, Partial<ReturnType<typeof summaryOf>>]>([
    [
      'by an operation: the backup waits until the deadline of the operation',
      { backup: requestedBackup(90_000), source: of(operation('create-managed', 500_000)) },
      { phase: 'pending', requeueAt: now + 500_000 },
    ],
    [
      'by a restore: the backup does not wait longer, since the restore may wait for the backup',
      { backup: requestedBackup(90_000), source: of(operation('restore-managed', 500_000)) },
      { phase: 'failed', reason: 'DatabaseNotServing' },
    ],
    [
      'a database that is being suspended is not expected to serve',
      { backup: requestedBackup(90_000), source: of(operation('update-managed', 500_000), { suspended: true }) },
      { phase: 'failed', reason: 'DatabaseNotServing' },
    ],
    [
      'a branch that served before is waited for, although its phase is failed',
      { ...ofBranch({ phase: 'failed', connectableAt: ago(10 ** 7), conditions: [ready('False', 5_000)] }) },
      { phase: 'pending', reason: 'AwaitingDatabase', requeueAt: now + 59_000 },
    ],
  ])('%s', (_, more, expected) => {
    expect(summaryOf(more)).toMatchObject(expected)
  })
})
