/** Moves of a branch to another target: when a move begins, what it keeps, how it ends, and what it deletes. */
import { describe, expect, test } from 'vitest'
import {
  annotations,
  type Branch,
  branchPhase,
  isMoveRequested,
  presentTarget,
  renderOperation,
  targetText,
} from '../../../crds/index.ts'
import { conditionOf, no } from '../../objects/conditions.ts'
import { branchSettings, type GivenBranch, reconciledBranch } from '../../testing/reconciled-branch.ts'
import { instanceOf, type Observed } from '../observed.ts'
import { moveDeadline, replacedBy, returning } from './moving.ts'

const { now, ago, root, status: reconciled, observedOf, planOf } = reconciledBranch()
const archive = { url: 'https://archive.test:8443' }
const recovery = { backupName: 'one-1', backupId: 'b', incarnation: 1, systemIdentifier: '7', sizeBytes: 600 * 2 ** 20 }
const first = { time: '2026-01-31T12:30:00Z' }
const second = { lsn: '0/6000000' }
const source = {
  ...{ backupName: 'one-1', recovery, systemIdentifier: '7', id: 'i', recordedAt: ago(60_000) },
  ...{ target: first, cutAt: first.time },
}
const { volume } = reconciled
if (volume === undefined) throw new Error('the branch has no volume')

/** A branch with the data of the first target, and with the second target in its spec. */
const requested = ({ status, ...more }: GivenBranch = {}): GivenBranch => ({
  spec: { target: second },
  status: { source, ...status },
  rest: { source: root, recovery: { record: recovery } },
  ...more,
})
const begun = () => {
  const { status } = planOf(requested())
  return status
}
const move = () => begun().move ?? { target: second, taskId: '', startedAt: '' }

describe('a move', () => {
  test('begins with one status write, which records the next incarnation and the current volume', () => {
    const { actions, status } = planOf(requested())
    expect(actions).toEqual([])
    expect(status).toMatchObject({
      ...{ phase: 'creating', incarnation: 2, connectableAt: reconciled.connectableAt, endpoint: reconciled.endpoint },
      source: { target: second, lsn: second.lsn, recovery },
      operation: { name: 'move-branch' },
      move: { target: second, incarnation: 2, previous: { incarnation: 1, volume, source } },
    })
    expect(status.volume).toBeUndefined()
    expect(Date.parse(status.move?.deadlineAt ?? '')).toBe(now + branchSettings.creatingMs + 60_000)
    const branch = { ...observedOf(requested()).branch, status }
    expect(instanceOf(branch, now, { archive })).toMatchObject({
      firstIncarnation: 2,
      dataSource: { kind: 'archive', recover: { target: { kind: 'lsn', lsn: second.lsn } } },
    })
  })

  test("has the Task id from the API's annotation; for each spec change by another client, the operator derives a new id", () => {
    const taskId = '11111111-2222-4333-8444-555555555555'
    const by = (target: object, generation = 1) => {
      const operation = renderOperation({ taskId, name: 'move-branch', hash: targetText(target) })
      const metadata = { generation, annotations: { [annotations.operation]: operation } }
      return planOf(requested({ metadata })).status.operation?.taskId
    }
    expect(by(second)).toBe(taskId)
    expect(by(first)).not.toBe(taskId)
    expect(by(first, 2)).not.toBe(by(first, 1))
  })

  test.each<[string, Branch['status']]>([
    ['before the last operation has ended', { operation: { taskId: 't', name: 'create-branch', startedAt: ago(1) } }],
    [
      'before the previous volume is deleted',
      {
        incarnation: 2,
        move: { ...move(), endedAt: ago(1), previous: { incarnation: 1, volume: { ...volume, uid: 'old' }, source } },
      },
    ],
    ['before the branch is connectable', { connectableAt: undefined }],
    ['if the branch already has the target', { source: { ...source, target: second } }],
    [
      'if a move to the same target has failed',
      { move: { ...move(), previous: undefined, endedAt: ago(1), error: 'why' } },
    ],
  ])('does not begin %s', (_, status) => {
    expect(planOf(requested({ status: status ?? {} })).status.source?.target).not.toEqual(
      status?.source === undefined ? second : first,
    )
  })

  test('begins again after a failure if the API requests the same target again', () => {
    const status = { move: { ...move(), previous: undefined, incarnation: 5, endedAt: ago(1), error: 'why' } }
    const taskId = '11111111-2222-4333-8444-555555555555'
    const operation = renderOperation({ taskId, name: 'move-branch', hash: targetText(second) })
    const metadata = { annotations: { [annotations.operation]: operation } }
    expect(planOf(requested({ status })).status.incarnation).toBe(1)
    // Moves never reuse an incarnation.
    expect(planOf(requested({ status, metadata })).status).toMatchObject({ incarnation: 6, move: { taskId } })
  })
})

describe('a move that cannot succeed', () => {
  test('is refused before anything changes', () => {
    const recoveryOf = { refused: { reason: 'OutsideWindow', message: 'it is not in the window' } }
    const { actions, status } = planOf(requested({ rest: { source: root, recovery: recoveryOf } }))
    expect(actions).toEqual([])
    expect(status).toMatchObject({
      ...{ phase: 'available', source, volume, incarnation: 1, operation: { name: 'move-branch' } },
      move: { reason: 'OutsideWindow', error: 'it is not in the window', endedAt: ago(0) },
    })
    expect(conditionOf(status, 'Progressing')).toMatchObject({ status: 'False', reason: 'OutsideWindow' })
    expect(conditionOf(status, 'Ready')?.status).toBe('True')
    const next = planOf(requested({ status, rest: {} })).status
    expect(next).toMatchObject({ phase: 'available', incarnation: 1 })
    expect(conditionOf(next, 'Progressing')?.reason).toBe('OutsideWindow')
  })

  test('is refused if its database does not exist', () => {
    const { status } = planOf(requested({ rest: { source: undefined, recovery: undefined } }))
    expect(status.move?.reason).toBe('SourceMissing')
  })

  const running = (): Observed => observedOf({ spec: { target: second }, status: begun() })
  test('ends at its deadline or if the recovery fails, with one status write that records the previous volume again', () => {
    const refusal = no('TargetNotReached', 'WAL ends before')
    const none = { fatal: undefined, serves: false } as Parameters<typeof returning>[1]
    expect(returning(running(), none, now, undefined)).toBeUndefined()
    const deadline = moveDeadline(running()) ?? 0
    for (const [assessment, at, reason] of [
      [{ ...none, fatal: refusal }, now, 'TargetNotReached'],
      [none, deadline, 'DeadlineExceeded'],
    ] as const) {
      const { actions, status } = returning(running(), assessment, at, undefined) ?? planOf()
      expect(actions).toEqual([])
      expect(status).toMatchObject({ incarnation: 1, volume, source, move: { reason, incarnation: 2 } })
      expect(status.move?.previous).toBeUndefined()
    }
    expect(returning(running(), { ...none, serves: true }, deadline, undefined)).toBeUndefined()
  })

  test('leaves the branch in the phase creating until the deadline', () => {
    const none = {
      ...{ claim: undefined, configuration: undefined, statefulSet: undefined, pod: undefined, credentials: undefined },
      ...{ certificate: undefined, service: undefined, networkPolicy: undefined, disruptionBudget: undefined },
      route: undefined,
    }
    const rest = { children: none, pod: undefined, postgres: undefined }
    const plan = planOf({ spec: { target: second }, status: begun(), rest }, now + 300_000)
    expect(plan.status.phase).toBe('creating')
    expect(plan.requeueAt).toBeLessThanOrEqual(now + branchSettings.creatingMs + 60_000)
  })
})

describe('the volume to delete', () => {
  const previous = { incarnation: 1, volume: { ...volume, uid: 'old' }, source }
  const replaced = (status: Branch['status']) => replacedBy(observedOf({ status: { source, ...status } }))
  test('is the previous volume once the branch serves; during the move, no volume is deleted', () => {
    expect(replaced({ incarnation: 2, move: { ...move(), previous } })).toBeUndefined()
    const ended = { ...move(), previous, endedAt: ago(1) }
    expect(replaced({ incarnation: 2, move: ended })).toEqual({ incarnation: 1, claimUid: 'old' })
  })
  test('is never the volume from which the branch serves', () => {
    expect(replaced({ incarnation: 1, move: { ...move(), previous, endedAt: ago(1) } })).toBeUndefined()
    const failed = { ...move(), incarnation: 2, previous: undefined, endedAt: ago(1), error: 'why' }
    expect(replaced({ incarnation: 2, move: failed })).toBeUndefined()
  })
})

describe('the target of the current data', () => {
  const branch = (spec: Branch['spec']['target'], more: object): Branch =>
    observedOf({
      spec: { target: spec },
      status: { source: { ...source, target: undefined, cutAt: undefined, ...more } },
    }).branch
  test('is read from status.source if an older operator version created the branch; a named point is read from spec.target', () => {
    expect(presentTarget(branch(second, { cutAt: first.time }))).toEqual(first)
    expect(presentTarget(branch(first, second))).toEqual(second)
    expect(presentTarget(branch({ pointName: 'p' }, {}))).toEqual({ pointName: 'p' })
    expect(presentTarget(branch({ backupName: 'one-2' }, {}))).toEqual({ backupName: 'one-1' })
    const unmoved = branch(first, { cutAt: first.time })
    expect([isMoveRequested(unmoved), branchPhase(unmoved)]).toEqual([false, 'available'])
  })
  test('differs from spec.target while a move is requested; clients see the phase creating', () => {
    const moving = branch(second, { cutAt: first.time })
    expect([isMoveRequested(moving), branchPhase(moving)]).toEqual([true, 'creating'])
  })
})
