/** The status, actions and timeouts of a restore in each step. */
import { describe, expect, test } from 'vitest'
import { desiredHash, labels, type ManagedDatabase, managedByEspalier, type Restore } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { conditionOf } from '../objects/conditions.ts'
import {
  ago,
  backup,
  database,
  deadlines,
  discarding,
  fenced,
  making,
  now,
  observed,
  prerestoreBackup,
  restore,
  running,
  volume,
} from '../testing/observed-restore.ts'
import { plainSpec } from '../testing/samples.ts'
import type { Leftover, Observed } from './observed.ts'
import { plan } from './plan.ts'

type Status = NonNullable<Restore['status']>

const day = 24 * 3600_000
const soon = now + 250
const planOf = (more: Partial<Observed>) => plan(observed(more), now, deadlines)
const progressing = (more: Partial<Observed>) => {
  const { status, reason, message } = conditionOf(planOf(more).status, 'Progressing') ?? {}
  return [status, reason, message]
}
const withStatus = (status: Partial<Status>) => restore({ ...running, ...status })
const going = { deletionTimestamp: ago(1_000) }
const leftover: Leftover = { kind: 'StatefulSet', name: 's', uid: 's' }
const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'c', uid: 'old' } } as const
const leftovers = (more: Partial<Observed['leftovers']> = {}): Partial<Observed> => ({
  leftovers: { hasPod: false, objects: [], claim: undefined, ...more },
})

describe('in the queue', () => {
  const pending = restore({ phase: 'pending' })
  const atRest = { appliedHash: desiredHash(plainSpec) }
  const onRecord = { volume: { claim: 'db-1-data', uid: 'old', systemIdentifier: '7' } }

  test('it reports that it was observed, and that nothing is restored yet', () => {
    const { actions, status } = planOf({ restore: restore(undefined, { finalizers: [] }) })
    expect([actions, status.phase, conditionOf(status, 'Progressing')?.reason]).toEqual([[], 'pending', 'Queued'])
    expect(conditionOf(status, 'Ready')).toMatchObject({ status: 'False', reason: 'NotCompleted' })
  })
  test('at its start it records everything that its later steps use', () => {
    const { actions, status } = planOf({ restore: pending, database: database(onRecord) })
    expect([actions, conditionOf(status, 'Progressing')?.reason]).toEqual([[], 'Preparing'])
    expect(status).toMatchObject({
      ...{ phase: 'running', startedAt: timestamp(now), deadlineAt: timestamp(now + deadlines.restoringMs) },
      ...{ anchor: 'back-u-prerestore', incarnation: 2 },
      previous: { incarnation: 1, claim: 'db-1-data', uid: 'old' },
    })
  })
  test.each<[string, ManagedDatabase['status'], free: number, expected: [number, number]]>([
    ['has no number yet', undefined, 1, [1, 2]],
    ['was restored before', { incarnation: 3 }, 4, [3, 4]],
    ['has lost claims', { incarnation: 3 }, 2, [3, 4]],
    ['has claims of failed restores', { incarnation: 3 }, 7, [3, 7]],
  ])('its volume gets an unused number for a database that %s', (_, status, freeIncarnation, expected) => {
    const { status: _was, ...without } = database()
    const its: ManagedDatabase = status === undefined ? without : { ...without, status }
    const planned = planOf({ restore: pending, database: its, freeIncarnation }).status
    expect([planned.previous?.incarnation, planned.incarnation]).toEqual(expected)
    expect(planned.previous).toEqual({ incarnation: expected[0] })
  })
  test('an idle database is made to request it', () => {
    const more = { restore: pending, isRequested: false, database: database(atRest) }
    expect(planOf(more).actions).toEqual([{ do: 'request-on-database' }])
    expect(planOf(more).status.phase).toBe('running')
  })
  const operation = { taskId: 't', name: 'update-managed' as const, hash: 'h', startedAt: ago(0), deadlineAt: ago(0) }
  test.each<[string, Partial<Observed>]>([
    ['while the database has an operation', { isRequested: false, database: database({ ...atRest, operation }) }],
    [
      'while a change of the database is requested',
      { isRequested: false, database: database({ appliedHash: 'older' }) },
    ],
    ['while another restore runs', { blockedBy: 'first' }],
  ])('it waits %s', (_, more) => {
    const { actions, status } = planOf({ ...more, restore: pending })
    expect([actions, status.phase, conditionOf(status, 'Progressing')?.reason]).toEqual([[], 'pending', 'Queued'])
  })
  test.each<[string, Partial<Observed>, RegExp]>([
    ['DatabaseMissing', { database: undefined }, /^there is no database one with the id i$/],
    ['DatabaseDeleting', { database: database({}, going) }, /being deleted/],
    [
      'OtherDatabase',
      { backup: { ...backup('completed', { databaseId: 'other' }) } },
      /^the backup one-1 is not one of/,
    ],
    ['BackupMissing', { backup: undefined, source: { refused: { reason: 'BackupMissing', message: 'm' } } }, /^m$/],
  ])('it fails if it cannot succeed: %s', (reason, more, error) => {
    const { actions, status } = planOf({ ...more, restore: pending })
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', finishedAt: timestamp(now), error: expect.stringMatching(error) })
    expect(['Ready', 'Progressing'].map(type => conditionOf(status, type)?.reason)).toEqual([reason, reason])
  })
  test('it is deleted like any other, for a database from before there were numbers', () => {
    const deleted = restore({ phase: 'pending' }, going)
    const unnumbered = { ...database(), status: { phase: 'available' as const } }
    expect(planOf({ restore: deleted, database: unnumbered })).toMatchObject({
      actions: [],
      status: { phase: 'failed' },
    })
  })
  test('one with finalizers of other owners is not changed during its deletion', () => {
    const foreign = restore({ ...running }, { ...going, finalizers: ['other'] })
    expect(planOf({ restore: foreign })).toEqual({ actions: [], status: running })
  })
  test('a recreated one does nothing', () => {
    expect(planOf({ restore: restore(undefined) }).actions).toEqual([])
  })
  test("names of backups fit, however long the restore's name is", () => {
    const [name, uid] = ['r'.repeat(253), '01234567-89ab-4def-8123-456789abcdef']
    expect(planOf({ restore: restore({ phase: 'pending' }, { name, uid }) }).status.anchor).toBe(
      `${'r'.repeat(230)}-01234567-prerestore`,
    )
    const switched = restore({ ...running, switchedAt: ago(0) }, { name, uid })
    const serving = database({ incarnation: 2, conditions: [{ ...ready, status: 'True' }] })
    expect(planOf({ restore: switched, database: serving }).status.after).toBe(
      `${'r'.repeat(230)}-01234567-postrestore`,
    )
  })
})

describe('until the new volume serves', () => {
  const adopt = { do: 'detach' as const }
  const busy = { ...making, actions: [adopt] }

  test('the prerestore backup is requested by its name, in parallel with the new volume', () => {
    expect(planOf({ prerestore: undefined, candidate: busy }).actions).toEqual([
      { do: 'take-backup', name: 'back-prerestore', purpose: 'prerestore' },
      { do: 'candidate', action: adopt },
    ])
    expect(progressing({ prerestore: undefined, candidate: making })[1]).toBe('Preparing')
  })
  test.each<[string, Restore, string]>([
    ['no volume was recorded', withStatus({ previous: { incarnation: 1 } }), 'Preparing'],
    ['the prerestore backup was deleted', fenced, 'Anchoring'],
  ])(
    "without a possible prerestore backup, and with a user's agreement, the reason is recorded: %s",
    (why, its, reason) => {
      const without = planOf({ restore: its, prerestore: undefined, candidate: busy })
      expect([without.actions, without.status.phase, without.status.anchorRefused]).toEqual([[], 'failed', why])
      expect(conditionOf(without.status, 'Ready')?.reason).toBe('BackupFailed')
      const { actions, status } = planOf({ restore: discarding(its), prerestore: undefined, candidate: busy })
      expect(status.anchorRefused).toBe(why)
      expect(actions).toEqual([{ do: 'candidate', action: adopt }])
      expect(conditionOf(status, 'Progressing')?.reason).toBe(reason)
      const next = discarding(restore({ ...running, ...its.status, anchorRefused: why }))
      expect(planOf({ restore: next, prerestore: undefined, oldPostgres: 'locked', candidate: busy }).actions).toEqual([
        { do: 'candidate', action: adopt },
      ])
    },
  )
  test.each<[string, Observed['prerestore']]>([
    ['without its labels', backup('pending', { purpose: 'prerestore' })],
    ['of another purpose', prerestoreBackup('pending', { purpose: 'user' })],
    ['of another database', prerestoreBackup('pending', { databaseId: 'other' })],
    ['of a branch', prerestoreBackup('pending', { sourceBranch: { name: 'b', id: 'b' } })],
    ['completed before Postgres was stopped', prerestoreBackup('completed')],
  ])('it fails if the name of the prerestore backup is that of a backup %s', (_, foreign) => {
    const { actions, status } = planOf({ prerestore: foreign, candidate: busy })
    expect([actions, status.phase, status.anchor]).toEqual([[], 'failed', undefined])
    expect(status.error).toBe('the backup one-1 already exists and was not created by this restore')
    expect(conditionOf(status, 'Ready')?.reason).toBe('NameTaken')
  })
  test('it reports what the new volume waits for, and does it', () => {
    expect(progressing({ candidate: making })).toEqual(['True', 'Starting', 'it starts'])
    expect(progressing({ candidate: undefined })).toEqual([
      'True',
      'Starting',
      'a volume is being created from the backup',
    ])
    expect(planOf({ candidate: busy }).actions).toEqual([{ do: 'candidate', action: adopt }])
    expect(planOf({ candidate: undefined }).actions).toEqual([])
  })
  test('it records when Postgres first answered on the new volume', () => {
    const suspensionBlock = { reason: 'AwaitsBackup', message: 'm' }
    expect(planOf({ suspensionBlock }).status).toMatchObject({ verifiedAt: timestamp(now) })
    expect(planOf({ suspensionBlock }).status).not.toHaveProperty('fencedAt')
    expect(planOf({}).status).toMatchObject({ verifiedAt: timestamp(now), fencedAt: timestamp(now) })
    expect(planOf({ restore: withStatus({ verifiedAt: ago(5_000) }) }).status.verifiedAt).toBe(ago(5_000))
    expect(planOf({ candidate: making }).status).not.toHaveProperty('verifiedAt')
  })

  describe('the switch', () => {
    const stopped = { restore: fenced, oldPostgres: 'locked' as const }
    test.each<[string, Partial<Observed>, string | undefined]>([
      ['happens with a prerestore backup', { prerestore: prerestoreBackup('completed') }, undefined],
      ['happens without one if it failed, which is recorded', { prerestore: prerestoreBackup('failed') }, 'why'],
      [
        'happens without one if it is recorded that none is possible',
        { prerestore: undefined, restore: restore({ ...fenced.status, anchorRefused: 'none' } as Status) },
        'none',
      ],
      [
        'keeps the recorded reason, although a failed backup exists',
        {
          prerestore: prerestoreBackup('failed'),
          restore: restore({ ...fenced.status, anchorRefused: 'none' } as Status),
        },
        'none',
      ],
    ])('%s', (_, more, anchorRefused) => {
      const all = { ...stopped, ...more }
      const { actions, status, requeueAt } = planOf({ ...all, restore: discarding(all.restore) })
      expect(planOf(all).status.phase).toBe(anchorRefused === undefined ? 'running' : 'failed')
      expect(actions).toEqual([])
      expect([status.volume, status.switchedAt, status.anchorRefused]).toEqual([volume, undefined, anchorRefused])
      expect([status.phase, status.fencedAt]).toEqual(['running', ago(500)])
      expect(conditionOf(status, 'Progressing')?.reason).toBe('Switching')
      expect(requeueAt).toBe(now + 1_000)
    })
    test('is waited for', () => {
      const more = { restore: withStatus({ ...fenced.status, volume }), candidate: undefined }
      expect(planOf(more)).toMatchObject({ actions: [], status: { volume, phase: 'running' }, requeueAt: soon })
      expect(progressing(more)[1]).toBe('Switching')
    })
  })

  test('is checked again soon, and at its deadline', () => {
    const requeueAt = (deadlineMs: number) =>
      planOf({ candidate: making, restore: withStatus({ deadlineAt: new Date(now + deadlineMs).toISOString() }) })
        .requeueAt
    expect([requeueAt(1_000), requeueAt(100)]).toEqual([soon, now + 100])
  })
  test('fails at its deadline, with the reason for the wait', () => {
    const late = withStatus({ deadlineAt: timestamp(now) })
    const { actions, status } = planOf({ candidate: busy, restore: late })
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', error: `not done by ${timestamp(now)}: it starts` })
    expect(
      planOf({ candidate: making, restore: withStatus({ deadlineAt: timestamp(now + 1_000) }) }).status.phase,
    ).toBe('running')
  })
  test.each<[string, Partial<Observed>]>([
    ['if its candidate fails', { candidate: { ...busy, state: 'failed', reason: 'R', message: 'm' } }],
    ['if its database is being deleted', { database: database({}, going), candidate: busy }],
    ['if its backup is refused', { candidate: undefined, source: { refused: { reason: 'R', message: 'm' } } }],
    ['if it is deleted itself', { restore: restore(running, going), candidate: busy }],
  ])('fails %s, and nothing more is done', (_, more) => {
    expect(planOf(more)).toMatchObject({ actions: [], status: { phase: 'failed', finishedAt: timestamp(now) } })
  })
  test('has a message no longer than the limit of the status', () => {
    const failed = { ...busy, state: 'failed' as const, reason: 'R', message: 'x'.repeat(2000) }
    expect(planOf({ candidate: failed }).status.error).toHaveLength(1000)
  })
})

const ready = { type: 'Ready', status: 'False' as const, reason: 'R', message: 'no', lastTransitionTime: ago(0) }

describe('once the new volume serves', () => {
  const withReady = (more: Partial<typeof ready> | { status: 'True' }, suspended = false): ManagedDatabase => {
    const its = database({ incarnation: 2, conditions: [{ ...ready, ...more }] })
    return { ...its, spec: { ...its.spec, suspended } }
  }
  const serving = withReady({ status: 'True' })
  const switched = withStatus({ switchedAt: ago(5_000) })
  const leftovers = { hasPod: false, objects: [leftover], claim: undefined }
  const removed = { do: 'delete', leftover }

  test('the objects of the old Postgres are deleted, and the endpoint is waited for', () => {
    const more = { restore: switched, database: withReady({}), leftovers }
    expect(planOf(more)).toMatchObject({
      ...{ actions: [removed], requeueAt: now - 5_000 + deadlines.modifyingMs },
      status: { phase: 'running', switchedAt: ago(5_000) },
    })
    expect(progressing(more)).toEqual(['True', 'Opening', 'opening the endpoint: no'])
  })
  test('the status of the database is sufficient too', () => {
    const { status, requeueAt } = planOf({ database: withReady({}) })
    expect([status.switchedAt, requeueAt]).toEqual([timestamp(now), now + deadlines.modifyingMs])
  })
  test('a backup of the restored data is requested, once it serves', () => {
    const more = { restore: switched, database: serving, leftovers }
    expect(planOf(more)).toMatchObject({
      actions: [{ do: 'take-backup', name: 'back-u-postrestore', purpose: 'postrestore' }, removed],
      ...{ status: { phase: 'running', after: 'back-u-postrestore', switchedAt: ago(5_000) }, requeueAt: soon },
    })
    expect(progressing(more)[1]).toBe('Opening')
  })
  test('if another backup has that name it completes without one, and reports that', () => {
    for (const foreign of [backup('completed', { purpose: 'postrestore' }), prerestoreBackup('completed')]) {
      const { actions, status } = planOf({ restore: switched, database: serving, after: foreign })
      expect([actions, status.phase, status.after]).toEqual([[], 'completed', undefined])
      expect(conditionOf(status, 'Ready')?.message).toMatch(
        /but were not backed up: the backup back-u-postrestore already exists/,
      )
    }
    const own = prerestoreBackup('completed', { purpose: 'postrestore' })
    expect(planOf({ restore: switched, database: serving, after: own }).status.after).toBe('back-u-postrestore')
  })
  test.each<[string, Restore, ManagedDatabase]>([
    [
      'once the backup after it is recorded',
      withStatus({ switchedAt: ago(5_000), after: 'back-u-postrestore' }),
      serving,
    ],
    ['at once if the database is suspended', switched, withReady({ reason: 'Suspended' }, true)],
  ])('it is completed %s', (_, its, of) => {
    const { actions, status, requeueAt } = planOf({ restore: its, database: of, leftovers })
    expect([actions, requeueAt]).toEqual([[removed], soon])
    expect(status).toMatchObject({ phase: 'completed', finishedAt: timestamp(now), switchedAt: ago(5_000) })
    expect(conditionOf(status, 'Ready')).toMatchObject({ status: 'True', reason: 'Completed' })
    expect(conditionOf(status, 'Progressing')).toMatchObject({ status: 'False', reason: 'Completed' })
  })
  test.each<[string, ManagedDatabase]>([
    ['is to be suspended, and is not yet', withReady({}, true)],
    ['was suspended, and is to serve', withReady({ reason: 'Suspended' })],
    ['reports no condition', { ...database({ incarnation: 2 }) }],
  ])('it waits for a database that %s', (_, its) => {
    expect(planOf({ restore: switched, database: its }).status.phase).toBe('running')
  })
  test('it fails if that takes too long', () => {
    const since = (ms: number) => ({ restore: withStatus({ switchedAt: ago(ms) }), database: withReady({}), leftovers })
    const { actions, status } = planOf(since(deadlines.modifyingMs))
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', error: 'Postgres is not Ready on the restored volume: no' })
    expect(conditionOf(status, 'Ready')?.reason).toBe('NotServing')
    expect(planOf(since(deadlines.modifyingMs - 1_000)).status.phase).toBe('running')
  })
  test.each<[string, ManagedDatabase | undefined]>([
    ['deleted', undefined],
    ['being deleted', { ...serving, metadata: { ...serving.metadata, ...going } }],
  ])('it fails with a database that is %s', (_, its) => {
    const { actions, status } = planOf({ restore: switched, database: its, leftovers })
    expect([actions, status.phase, conditionOf(status, 'Ready')?.reason]).toEqual([[], 'failed', 'DatabaseDeleting'])
  })
  test.each<[string, Restore, Observed['prerestore'], string | undefined]>([
    ['it exists', switched, prerestoreBackup('completed'), undefined],
    ['it failed', switched, prerestoreBackup('failed'), 'why'],
    [
      'it was refused',
      withStatus({ switchedAt: ago(5_000), anchorRefused: 'none' }),
      prerestoreBackup('failed'),
      'none',
    ],
    ['it is deleted', switched, undefined, undefined],
  ])('the result of the prerestore backup is recorded: %s', (_, its, anchor, anchorRefused) => {
    expect(planOf({ restore: its, prerestore: anchor, database: serving }).status.anchorRefused).toBe(anchorRefused)
  })
})

describe('once it has ended', () => {
  const done = (switchedMs: number, finishedMs = switchedMs) =>
    withStatus({ phase: 'completed', switchedAt: ago(switchedMs), finishedAt: ago(finishedMs) })
  const failed = (more: Partial<Status> = {}) => withStatus({ phase: 'failed', finishedAt: ago(1_000), ...more })
  const does = (more: Partial<Observed>) => {
    const { actions, requeueAt } = planOf(more)
    return [actions.map(action => (action.do === 'delete' ? action.leftover.kind : action.do)), requeueAt]
  }
  /** Created by the operator for a request of its database. */
  const own = (its: Restore): Restore => restore(its.status, { labels: { [labels.managedBy]: managedByEspalier } })
  const unnumbered: ManagedDatabase = { ...database(), status: { phase: 'available' } }

  test.each<[string, Partial<Observed>, string[], requeueAt: number | undefined]>([
    ['the database keeps the old claim', { restore: done(60_000), ...leftovers({ claim }) }, [], now + day],
    [
      'the StatefulSet of the old Postgres is deleted',
      { restore: done(60_000), ...leftovers({ claim, objects: [leftover] }) },
      ['StatefulSet'],
      soon,
    ],
    [
      'the pod of the old Postgres is waited for',
      { restore: done(60_000), ...leftovers({ claim, hasPod: true }) },
      [],
      soon,
    ],
    [
      'the old claim is kept too if the restore failed after the switch',
      { restore: failed({ finishedAt: ago(60_000) }), database: database({ incarnation: 2 }), ...leftovers({ claim }) },
      [],
      now + day,
    ],
    [
      'the claim is deleted with the database, not by the restore',
      { restore: done(60_000), database: database({}, going), ...leftovers({ claim }) },
      [],
      now + day,
    ],
    [
      'with a deletion request, it waits until the database records the claim',
      { restore: restore(done(60_000).status, going), ...leftovers({ claim }) },
      [],
      soon,
    ],
    [
      'with a deletion request, it waits until the database records the completed restore',
      {
        restore: restore(done(60_000).status, going),
        database: database({ previous: [{ incarnation: 1, claim: 'c', uid: 'old' }] }),
        ...leftovers({ claim }),
      },
      [],
      soon,
    ],
    [
      'with a deletion request, it loses its finalizer then',
      {
        restore: restore(done(60_000).status, going),
        database: database({ previous: [{ incarnation: 1, claim: 'c', uid: 'old', restoredAt: ago(0) }] }),
        isRequested: false,
        ...leftovers({ claim }),
      },
      ['remove-finalizer'],
      undefined,
    ],
    [
      'a failed one with a deletion request loses its finalizer at once',
      {
        restore: restore(failed({ switchedAt: ago(5_000) }).status, going),
        database: database({ previous: [{ incarnation: 1, claim: 'c', uid: 'x', restoreUid: 'u' }] }),
        isRequested: false,
        ...leftovers({ claim }),
      },
      ['remove-finalizer'],
      undefined,
    ],
    [
      'a restore that failed before it began deletes its claim',
      { restore: restore({ phase: 'failed', finishedAt: ago(1_000) }), database: unnumbered, ...leftovers({ claim }) },
      ['PersistentVolumeClaim'],
      soon,
    ],
    [
      'a claim that is being deleted is waited for',
      { restore: failed(), ...leftovers({ claim: { ...claim, metadata: { ...claim.metadata, ...going } } }) },
      [],
      soon,
    ],
    [
      'a failed restore deletes its StatefulSet',
      { restore: failed(), ...leftovers({ objects: [leftover] }) },
      ['StatefulSet'],
      soon,
    ],
    ['a failed restore waits for its pod', { restore: failed(), ...leftovers({ hasPod: true }) }, [], soon],
    [
      'without a claim, one with a deletion request loses its finalizer',
      { restore: restore(done(60_000).status, going), isRequested: false },
      ['remove-finalizer'],
      undefined,
    ],
    ['a failed restore is retained', { restore: failed() }, [], now + day],
    ['a completed restore is retained for a month', { restore: done(30 * day - 1_000) }, [], now + day],
    ['a completed restore is deleted after a month', { restore: own(done(30 * day)) }, ['delete-restore'], undefined],
    ['a restore that a user created is not deleted after a month', { restore: done(30 * day) }, [], undefined],
    [
      'a restore that a user created is deleted with its database',
      { restore: done(30 * day), database: undefined },
      ['delete-restore'],
      undefined,
    ],
    [
      'a failed restore is deleted with its database',
      { restore: failed(), database: undefined },
      ['delete-restore'],
      undefined,
    ],
    [
      'a restore that failed because the database is missing is retained without the database',
      {
        restore: failed({ conditions: [{ ...ready, reason: 'DatabaseMissing' }] }),
        database: undefined,
      },
      [],
      now + day,
    ],
    [
      'a restore that failed for another reason is retained with its database',
      { restore: failed({ conditions: [{ ...ready, reason: 'R' }] }) },
      [],
      now + day,
    ],
  ])('%s', (_, more, expected, requeueAt) => {
    expect(does(more)).toEqual([expected, requeueAt])
    expect(planOf(more).status).toEqual(more.restore?.status)
  })
  test('a claim is deleted by uid', () => {
    expect(planOf({ restore: failed(), ...leftovers({ claim }) }).actions).toEqual([
      { do: 'delete', leftover: { kind: 'PersistentVolumeClaim', name: 'c', uid: 'old' } },
    ])
  })
})
