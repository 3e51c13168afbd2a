import { describe, expect, test } from 'vitest'
import { annotations, desiredHash, labels, type ManagedDatabase, renderOperation, type Task } from '../../crds/index.ts'
import { plainSpec } from '../testing/samples.ts'
import { finished, outcomeOf, progressOf, startWithinMs } from './progress.ts'
import { type Subject, subjectOf } from './subject.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const taskId = '11111111-2222-4333-8444-555555555555'
const otherId = '11111111-2222-4333-8444-666666666666'

const hash = desiredHash(plainSpec)

const database = (
  status: ManagedDatabase['status'] = {},
  metadata: Partial<ManagedDatabase['metadata']> = {},
): Subject =>
  subjectOf({
    apiVersion: 'espalier.dev/v1alpha1',
    kind: 'ManagedDatabase',
    metadata: { name: 'one', namespace: 'n', labels: { [labels.id]: 'id' }, ...metadata },
    spec: plainSpec,
    status,
  })

const task = (name: Task['spec']['name'], createdMsAgo = 0): Task => ({
  apiVersion: 'espalier.dev/v1alpha1',
  kind: 'Task',
  metadata: {
    name: `task-${taskId}`,
    namespace: 'n',
    labels: { [labels.id]: taskId },
    creationTimestamp: new Date(now - createdMsAgo).toISOString(),
  },
  spec: { name, subject: { kind: 'database', id: 'id', name: 'one' } },
})

const progressing = (status: 'True' | 'False', reason: string, message = ''): ManagedDatabase['status'] => ({
  conditions: [{ type: 'Progressing', status, reason, message, lastTransitionTime: '2026-01-01T00:00:00Z' }],
})
const annotated = (id: string, of = hash) => ({
  annotations: {
    [annotations.operation]: renderOperation({ taskId: id, name: 'update-managed', hash: of }),
  },
})

describe('progress', () => {
  test('reports each step once, with its percentage', () => {
    const first = progressOf(undefined, database(progressing('True', 'Starting', 'starting')), now)
    expect(first).toMatchObject({ phase: 'running', messages: [{ step: 'Starting', progress: 30, level: 'info' }] })
    expect(progressOf(first, database(progressing('True', 'Starting', 'in other words')), now)).toBe(first)
    const second = progressOf(first, database(progressing('True', 'NameTaken', 'taken')), now)
    expect(second.messages?.at(-1)).toMatchObject({ step: 'NameTaken', level: 'warning' })
  })

  test('reports the progress of the services', () => {
    const at = (message: string) => database(progressing('True', 'StartingServices', message))
    const first = progressOf(undefined, at('rest: waiting for Postgres'), now)
    const second = progressOf(first, at('rest: starting'), now)
    expect(second.messages?.map(({ text, level }) => [text, level])).toEqual([
      ['rest: waiting for Postgres', 'info'],
      ['rest: starting', 'info'],
    ])
    expect(progressOf(second, at('rest: starting'), now)).toBe(second)
  })

  test('never decreases when a step is repeated', () => {
    const roles = progressOf(undefined, database(progressing('True', 'PreparingRoles', 'roles')), now)
    const again = progressOf(roles, database(progressing('True', 'Connecting', 'waiting for the pod')), now)
    expect(again.messages?.map(({ progress }) => progress)).toEqual([75, 75])
  })

  test('ends once, with the outcome of its subject', () => {
    const done = progressOf(undefined, database(progressing('False', 'Completed')), now)
    expect(done).toMatchObject({ phase: 'succeeded', finishedAt: '2026-01-01T00:00:00.000Z' })
    const begun = progressOf(undefined, database(progressing('True', 'Starting')), now)
    expect(progressOf(begun, database(progressing('False', 'Completed')), now + 8_000).duration).toBe('8s')
    const failed = progressOf(undefined, database(progressing('False', 'VolumeLost', 'gone')), now)
    expect(failed).toMatchObject({ phase: 'failed', error: 'gone' })
    expect(progressOf(failed, database(progressing('False', 'Completed')), now + 1000)).toBe(failed)
    expect(finished(done, now + 1000, 'too late')).toBe(done)
  })

  test('keeps at most a hundred messages, always with the first one', () => {
    let status = progressOf(undefined, database(progressing('True', 'first')), now)
    for (let step = 0; step < 150; step++)
      status = progressOf(status, database(progressing('True', `step${step}`)), now)
    expect(status.messages).toHaveLength(100)
    expect(status.messages?.[0]?.step).toBe('first')
    expect(status.messages?.at(-1)?.step).toBe('step149')
  })
})

describe("a Task that its subject's status does not name", () => {
  const waiting = { state: 'waiting' }
  const failed = { state: 'over', error: expect.any(String) }
  const succeeded = { state: 'over' }
  const deleting = { deletionTimestamp: '2026-01-01T00:00:00Z' }
  test.each<[string, Task, Subject | undefined, unknown]>([
    ['deletion, subject deleted', task('delete-managed'), undefined, succeeded],
    ['creation, subject deleted', task('create-managed'), undefined, failed],
    [
      "deletion, another object has the subject's name",
      task('delete-managed'),
      database({}, { labels: { [labels.id]: 'x' } }),
      succeeded,
    ],
    ['deletion running', task('delete-managed'), database({}, deleting), waiting],
    ['deletion recently requested', task('delete-managed'), database(), waiting],
    ['deletion never requested', task('delete-managed', startWithinMs), database(), failed],
    ['change superseded by a deletion', task('update-managed'), database({}, deleting), failed],
    ['change not begun', task('update-managed'), database({}, annotated(taskId)), waiting],
    ['change never begun', task('update-managed', startWithinMs), database({}, annotated(taskId)), failed],
    ['change superseded by another change', task('update-managed'), database({}, annotated(otherId)), failed],
    ['change superseded without the API', task('update-managed'), database({}, annotated(taskId, 'old')), failed],
    [
      'change without effect',
      task('update-managed'),
      database({ appliedHash: hash, ...progressing('False', 'Completed') }, annotated(taskId)),
      succeeded,
    ],
    [
      'change without effect, after a failure',
      task('update-managed'),
      database({ appliedHash: hash, ...progressing('False', 'DeadlineExceeded', 'late') }, annotated(taskId)),
      failed,
    ],
  ])('%s', (_, subject, found, expected) => {
    const outcome = outcomeOf(subject, found, now)
    expect(outcome).toEqual(expected)
    expect('error' in outcome).toBe(expected === failed)
  })
})
