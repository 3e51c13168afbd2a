/** What is said of a restore as it goes, what is done in each step, and how long is waited for what. */
import { describe, expect, test } from 'vitest'
import { desiredHash, labels, type ManagedDatabase, managedByEspalier, type Restore } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { conditionOf } from '../objects/conditions.ts'
import {
  ago,
  anchor,
  backup,
  database,
  deadlines,
  discarding,
  fenced,
  making,
  now,
  observed,
  restore,
  running,
  volume,
} from '../testing/observed-restore.ts'
import { plainSpec } from '../testing/samples.ts'
import type { Left, Observed } from './observed.ts'
import { plan } from './plan.ts'

type Status = NonNullable<Restore['status']>

const day = 24 * 3600_000
const soon = now + 250
const planOf = (more: Partial<Observed>) => plan(observed(more), now, deadlines)
const progressing = (more: Partial<Observed>) => {
  const { status, reason, message } = conditionOf(planOf(more).status, 'Progressing') ?? {}
  return [status, reason, message]
}
const saying = (status: Partial<Status>) => restore({ ...running, ...status })
const going = { deletionTimestamp: ago(1_000) }
const leftover: Left = { kind: 'StatefulSet', name: 's', uid: 's' }
const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'c', uid: 'old' } } as const
const left = (more: Partial<Observed['leftovers']> = {}): Partial<Observed> => ({
  leftovers: { hasPod: false, objects: [], claim: undefined, ...more },
})

describe('before its turn', () => {
  const pending = restore({ phase: 'pending' })
  const atRest = { appliedHash: desiredHash(plainSpec) }
  const onRecord = { volume: { claim: 'db-1-data', uid: 'old', systemIdentifier: '7' } }

  test('it says that it has been seen, and that nothing is restored yet', () => {
    const { actions, status } = planOf({ restore: restore(undefined, { finalizers: [] }) })
    expect([actions, status.phase, conditionOf(status, 'Progressing')?.reason]).toEqual([[], 'pending', 'Queued'])
    expect(conditionOf(status, 'Ready')).toMatchObject({ status: 'False', reason: 'NotCompleted' })
  })
  test('it says with its beginning all that it goes by from then on', () => {
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
    ['has claims of restores that failed', { incarnation: 3 }, 7, [3, 7]],
  ])('its volume gets a number that none had, of a database that %s', (_, status, freeIncarnation, expected) => {
    const { status: _was, ...without } = database()
    const its: ManagedDatabase = status === undefined ? without : { ...without, status }
    const told = planOf({ restore: pending, database: its, freeIncarnation }).status
    expect([told.previous?.incarnation, told.incarnation]).toEqual(expected)
    expect(told.previous).toEqual({ incarnation: expected[0] })
  })
  test('it has a database at rest ask for it', () => {
    const more = { restore: pending, isAsked: false, database: database(atRest) }
    expect(planOf(more).actions).toEqual([{ do: 'ask', backupName: 'one-1' }])
    expect(planOf(more).status.phase).toBe('running')
  })
  const operation = { taskId: 't', name: 'update-managed' as const, hash: 'h', startedAt: ago(0), deadlineAt: ago(0) }
  test.each<[string, Partial<Observed>]>([
    ['while the database has something to do', { isAsked: false, database: database({ ...atRest, operation }) }],
    ['while it is asked for something', { isAsked: false, database: database({ appliedHash: 'older' }) }],
    ['while there is another', { ahead: 'first' }],
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
  ])('it fails where nothing can come of it: %s', (reason, more, error) => {
    const { actions, status } = planOf({ ...more, restore: pending })
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', finishedAt: timestamp(now), error: expect.stringMatching(error) })
    expect(['Ready', 'Progressing'].map(type => conditionOf(status, type)?.reason)).toEqual([reason, reason])
  })
  test('it is taken away as any other, of a database from before there were numbers', () => {
    const gone = restore({ phase: 'pending' }, going)
    const unnumbered = { ...database(), status: { phase: 'available' as const } }
    expect(planOf({ restore: gone, database: unnumbered })).toMatchObject({ actions: [], status: { phase: 'failed' } })
  })
  test('one that others hold while it goes is not touched', () => {
    const theirs = restore({ ...running }, { ...going, finalizers: ['other'] })
    expect(planOf({ restore: theirs })).toEqual({ actions: [], status: running })
  })
  test('one that was put back does nothing', () => {
    expect(planOf({ restore: restore(undefined) }).actions).toEqual([])
  })
  test('names of backups fit, however long its own is', () => {
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

  test('the anchor is asked for by its name, beside what is done for the new volume', () => {
    expect(planOf({ anchor: undefined, candidate: busy }).actions).toEqual([
      { do: 'take-backup', name: 'back-prerestore', purpose: 'prerestore' },
      { do: 'candidate', action: adopt },
    ])
    expect(progressing({ anchor: undefined, candidate: making })[1]).toBe('Preparing')
  })
  test.each<[string, Restore, string]>([
    ['no volume was on record', saying({ previous: { incarnation: 1 } }), 'Preparing'],
    ['the prerestore backup was deleted', fenced, 'Anchoring'],
  ])('where there can be none, and somebody agrees, that is on record: %s', (why, its, reason) => {
    const without = planOf({ restore: its, anchor: undefined, candidate: busy })
    expect([without.actions, without.status.phase, without.status.anchorRefused]).toEqual([[], 'failed', why])
    expect(conditionOf(without.status, 'Ready')?.reason).toBe('BackupFailed')
    const { actions, status } = planOf({ restore: discarding(its), anchor: undefined, candidate: busy })
    expect(status.anchorRefused).toBe(why)
    expect(actions).toEqual([{ do: 'candidate', action: adopt }])
    expect(conditionOf(status, 'Progressing')?.reason).toBe(reason)
    const next = discarding(restore({ ...running, ...its.status, anchorRefused: why }))
    expect(planOf({ restore: next, anchor: undefined, old: 'locked', candidate: busy }).actions).toEqual([
      { do: 'candidate', action: adopt },
    ])
  })
  test.each<[string, Observed['anchor']]>([
    ['nobody marked', backup('pending', { purpose: 'prerestore' })],
    ['of another purpose', anchor('pending', { purpose: 'user' })],
    ['of another database', anchor('pending', { databaseId: 'other' })],
    ['of a branch', anchor('pending', { sourceBranch: { name: 'b', id: 'b' } })],
    ['completed before anything was stopped', anchor('completed')],
  ])('it fails where the name of the anchor is that of a backup %s', (_, theirs) => {
    const { actions, status } = planOf({ anchor: theirs, candidate: busy })
    expect([actions, status.phase, status.anchor]).toEqual([[], 'failed', undefined])
    expect(status.error).toBe('the backup one-1 is in the way: it is there already, and not made by this restore')
    expect(conditionOf(status, 'Ready')?.reason).toBe('NameTaken')
  })
  test('it says what the new volume waits for, and does it', () => {
    expect(progressing({ candidate: making })).toEqual(['True', 'Starting', 'it starts'])
    expect(progressing({ candidate: undefined })).toEqual(['True', 'Starting', 'a volume is made of the backup'])
    expect(planOf({ candidate: busy }).actions).toEqual([{ do: 'candidate', action: adopt }])
    expect(planOf({ candidate: undefined }).actions).toEqual([])
  })
  test('it says when Postgres had answered on it first', () => {
    const suspensionBlock = { reason: 'AwaitsBackup', message: 'm' }
    expect(planOf({ suspensionBlock }).status).toMatchObject({ verifiedAt: timestamp(now) })
    expect(planOf({ suspensionBlock }).status).not.toHaveProperty('fencedAt')
    expect(planOf({}).status).toMatchObject({ verifiedAt: timestamp(now), fencedAt: timestamp(now) })
    expect(planOf({ restore: saying({ verifiedAt: ago(5_000) }) }).status.verifiedAt).toBe(ago(5_000))
    expect(planOf({ candidate: making }).status).not.toHaveProperty('verifiedAt')
  })

  describe('the exchange', () => {
    const stopped = { restore: fenced, old: 'locked' as const }
    test.each<[string, Partial<Observed>, string | undefined]>([
      ['has an anchor', { anchor: anchor('completed') }, undefined],
      ['has one that failed', { anchor: anchor('failed') }, 'why'],
      [
        'has none, which is on record',
        { anchor: undefined, restore: restore({ ...fenced.status, anchorRefused: 'none' } as Status) },
        'none',
      ],
      [
        'has none, whatever else is known',
        { anchor: anchor('failed'), restore: restore({ ...fenced.status, anchorRefused: 'none' } as Status) },
        'none',
      ],
    ])('%s', (_, more, anchorRefused) => {
      const all = { ...stopped, ...more }
      const { actions, status, wakeAt } = planOf({ ...all, restore: discarding(all.restore) })
      expect(planOf(all).status.phase).toBe(anchorRefused === undefined ? 'running' : 'failed')
      expect(actions).toEqual([])
      expect([status.volume, status.switchedAt, status.anchorRefused]).toEqual([volume, undefined, anchorRefused])
      expect([status.phase, status.fencedAt]).toEqual(['running', ago(500)])
      expect(conditionOf(status, 'Progressing')?.reason).toBe('Switching')
      expect(wakeAt).toBe(now + 1_000)
    })
    test('is waited for', () => {
      const more = { restore: saying({ ...fenced.status, volume }), candidate: undefined }
      expect(planOf(more)).toMatchObject({ actions: [], status: { volume, phase: 'running' }, wakeAt: soon })
      expect(progressing(more)[1]).toBe('Switching')
    })
  })

  test('it is looked at again soon, and at its deadline', () => {
    const wakeAt = (deadlineMs: number) =>
      planOf({ candidate: making, restore: saying({ deadlineAt: new Date(now + deadlineMs).toISOString() }) }).wakeAt
    expect([wakeAt(1_000), wakeAt(100)]).toEqual([soon, now + 100])
  })
  test('it fails at its deadline, with what was waited for', () => {
    const late = saying({ deadlineAt: timestamp(now) })
    const { actions, status } = planOf({ candidate: busy, restore: late })
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', error: `not done by ${timestamp(now)}: it starts` })
    expect(planOf({ candidate: making, restore: saying({ deadlineAt: timestamp(now + 1_000) }) }).status.phase).toBe(
      'running',
    )
  })
  test.each<[string, Partial<Observed>]>([
    ['with its candidate', { candidate: { ...busy, state: 'failed', reason: 'R', message: 'm' } }],
    ['with its database', { database: database({}, going), candidate: busy }],
    ['with its backup', { candidate: undefined, source: { refused: { reason: 'R', message: 'm' } } }],
    ['with itself', { restore: restore(running, going), candidate: busy }],
  ])('it fails %s, and nothing more is done', (_, more) => {
    expect(planOf(more)).toMatchObject({ actions: [], status: { phase: 'failed', finishedAt: timestamp(now) } })
  })
  test('it says no more than a status holds', () => {
    const failed = { ...busy, state: 'failed' as const, reason: 'R', message: 'x'.repeat(2000) }
    expect(planOf({ candidate: failed }).status.error).toHaveLength(1000)
  })
})

const ready = { type: 'Ready', status: 'False' as const, reason: 'R', message: 'no', lastTransitionTime: ago(0) }

describe('once the new volume is in place', () => {
  const withReady = (more: Partial<typeof ready> | { status: 'True' }, suspended = false): ManagedDatabase => {
    const its = database({ incarnation: 2, conditions: [{ ...ready, ...more }] })
    return { ...its, spec: { ...its.spec, suspended } }
  }
  const serving = withReady({ status: 'True' })
  const switched = saying({ switchedAt: ago(5_000) })
  const leftovers = { hasPod: false, objects: [leftover], claim: undefined }
  const removed = { do: 'delete', left: leftover }

  test('what the old one ran with goes, and the endpoint is waited for', () => {
    const more = { restore: switched, database: withReady({}), leftovers }
    expect(planOf(more)).toMatchObject({
      ...{ actions: [removed], wakeAt: now - 5_000 + deadlines.modifyingMs },
      status: { phase: 'running', switchedAt: ago(5_000) },
    })
    expect(progressing(more)).toEqual(['True', 'Opening', 'the endpoint is opened: no'])
  })
  test('it is known by the word of the database as well', () => {
    const { status, wakeAt } = planOf({ database: withReady({}) })
    expect([status.switchedAt, wakeAt]).toEqual([timestamp(now), now + deadlines.modifyingMs])
  })
  test('a backup is asked for of what was restored, once it serves', () => {
    const more = { restore: switched, database: serving, leftovers }
    expect(planOf(more)).toMatchObject({
      actions: [{ do: 'take-backup', name: 'back-u-postrestore', purpose: 'postrestore' }, removed],
      ...{ status: { phase: 'running', after: 'back-u-postrestore', switchedAt: ago(5_000) }, wakeAt: soon },
    })
    expect(progressing(more)[1]).toBe('Opening')
  })
  test('where somebody else has the name of that backup it is completed without, and says so', () => {
    for (const theirs of [backup('completed', { purpose: 'postrestore' }), anchor('completed')]) {
      const { actions, status } = planOf({ restore: switched, database: serving, after: theirs })
      expect([actions, status.phase, status.after]).toEqual([[], 'completed', undefined])
      expect(conditionOf(status, 'Ready')?.message).toMatch(
        /there is no backup of them: the backup back-u-postrestore is in the way/,
      )
    }
    const ours = anchor('completed', { purpose: 'postrestore' })
    expect(planOf({ restore: switched, database: serving, after: ours }).status.after).toBe('back-u-postrestore')
  })
  test.each<[string, Restore, ManagedDatabase]>([
    ['once that is on record', saying({ switchedAt: ago(5_000), after: 'back-u-postrestore' }), serving],
    ['at once where nothing is to serve', switched, withReady({ reason: 'Suspended' }, true)],
  ])('it is completed %s', (_, its, of) => {
    const { actions, status, wakeAt } = planOf({ restore: its, database: of, leftovers })
    expect([actions, wakeAt]).toEqual([[removed], soon])
    expect(status).toMatchObject({ phase: 'completed', finishedAt: timestamp(now), switchedAt: ago(5_000) })
    expect(conditionOf(status, 'Ready')).toMatchObject({ status: 'True', reason: 'Completed' })
    expect(conditionOf(status, 'Progressing')).toMatchObject({ status: 'False', reason: 'Completed' })
  })
  test.each<[string, ManagedDatabase]>([
    ['is to be suspended, and is not yet', withReady({}, true)],
    ['was suspended, and is to serve', withReady({ reason: 'Suspended' })],
    ['says nothing', { ...database({ incarnation: 2 }) }],
  ])('a database is waited for that %s', (_, its) => {
    expect(planOf({ restore: switched, database: its }).status.phase).toBe('running')
  })
  test('it fails where that takes too long', () => {
    const since = (ms: number) => ({ restore: saying({ switchedAt: ago(ms) }), database: withReady({}), leftovers })
    const { actions, status } = planOf(since(deadlines.modifyingMs))
    expect(actions).toEqual([])
    expect(status).toMatchObject({ phase: 'failed', error: 'the restored data do not serve: no' })
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
  test.each<[string, Restore, Observed['anchor'], string | undefined]>([
    ['there is one', switched, anchor('completed'), undefined],
    ['it failed', switched, anchor('failed'), 'why'],
    ['it was refused', saying({ switchedAt: ago(5_000), anchorRefused: 'none' }), anchor('failed'), 'none'],
    ['it is gone', switched, undefined, undefined],
  ])('what became of the anchor is on record: %s', (_, its, anchor, anchorRefused) => {
    expect(planOf({ restore: its, anchor, database: serving }).status.anchorRefused).toBe(anchorRefused)
  })
})

describe('once it has ended', () => {
  const done = (switchedMs: number, finishedMs = switchedMs) =>
    saying({ phase: 'completed', switchedAt: ago(switchedMs), finishedAt: ago(finishedMs) })
  const failed = (more: Partial<Status> = {}) => saying({ phase: 'failed', finishedAt: ago(1_000), ...more })
  const does = (more: Partial<Observed>) => {
    const { actions, wakeAt } = planOf(more)
    return [actions.map(action => (action.do === 'delete' ? action.left.kind : action.do)), wakeAt]
  }
  /** Made by the operator, as a database asked for it. */
  const ours = (its: Restore): Restore => restore(its.status, { labels: { [labels.managedBy]: managedByEspalier } })
  const unnumbered: ManagedDatabase = { ...database(), status: { phase: 'available' } }

  test.each<[string, Partial<Observed>, string[], wakeAt: number | undefined]>([
    ['the old claim is kept by the database', { restore: done(60_000), ...left({ claim }) }, [], now + day],
    [
      'while what ran on it goes',
      { restore: done(60_000), ...left({ claim, objects: [leftover] }) },
      ['StatefulSet'],
      soon,
    ],
    ['and the pod', { restore: done(60_000), ...left({ claim, hasPod: true }) }, [], soon],
    [
      'also of one that failed after the exchange',
      { restore: failed({ finishedAt: ago(60_000) }), database: database({ incarnation: 2 }), ...left({ claim }) },
      [],
      now + day,
    ],
    ['and deleted by it', { restore: done(60_000), database: database({}, going), ...left({ claim }) }, [], now + day],
    [
      'one that is deleted waits until the database has the claim on record',
      { restore: restore(done(60_000).status, going), ...left({ claim }) },
      [],
      soon,
    ],
    [
      'and that it has completed',
      {
        restore: restore(done(60_000).status, going),
        database: database({ previous: [{ incarnation: 1, claim: 'c', uid: 'old' }] }),
        ...left({ claim }),
      },
      [],
      soon,
    ],
    [
      'and no longer',
      {
        restore: restore(done(60_000).status, going),
        database: database({ previous: [{ incarnation: 1, claim: 'c', uid: 'old', restoredAt: ago(0) }] }),
        isAsked: false,
        ...left({ claim }),
      },
      ['release'],
      undefined,
    ],
    [
      'one that failed has nothing to wait for',
      {
        restore: restore(failed({ switchedAt: ago(5_000) }).status, going),
        database: database({ previous: [{ incarnation: 1, claim: 'c', uid: 'x', restoreUid: 'u' }] }),
        isAsked: false,
        ...left({ claim }),
      },
      ['release'],
      undefined,
    ],
    [
      'and not of one that never began',
      { restore: restore({ phase: 'failed', finishedAt: ago(1_000) }), database: unnumbered, ...left({ claim }) },
      ['PersistentVolumeClaim'],
      soon,
    ],
    [
      'a claim that goes is waited for',
      { restore: failed(), ...left({ claim: { ...claim, metadata: { ...claim.metadata, ...going } } }) },
      [],
      soon,
    ],
    ['as is what else is left', { restore: failed(), ...left({ objects: [leftover] }) }, ['StatefulSet'], soon],
    ['and a pod', { restore: failed(), ...left({ hasPod: true }) }, [], soon],
    [
      'nothing is kept where there is no claim, and it is let go when it is deleted',
      { restore: restore(done(60_000).status, going), isAsked: false },
      ['release'],
      undefined,
    ],
    ['its record is kept', { restore: failed() }, [], now + day],
    ['for a month', { restore: done(30 * day - 1_000) }, [], now + day],
    ['and no longer', { restore: ours(done(30 * day)) }, ['forget'], undefined],
    ['but where somebody made it himself', { restore: done(30 * day) }, [], undefined],
    ['which goes with its database as well', { restore: done(30 * day), database: undefined }, ['forget'], undefined],
    ['or with its database', { restore: failed(), database: undefined }, ['forget'], undefined],
    [
      'but where that is what it says',
      {
        restore: failed({ conditions: [{ ...ready, reason: 'DatabaseMissing' }] }),
        database: undefined,
      },
      [],
      now + day,
    ],
    ['also where it was found again', { restore: failed({ conditions: [{ ...ready, reason: 'R' }] }) }, [], now + day],
  ])('%s', (_, more, expected, wakeAt) => {
    expect(does(more)).toEqual([expected, wakeAt])
    expect(planOf(more).status).toEqual(more.restore?.status)
  })
  test('a claim goes by its uid', () => {
    expect(planOf({ restore: failed(), ...left({ claim }) }).actions).toEqual([
      { do: 'delete', left: { kind: 'PersistentVolumeClaim', name: 'c', uid: 'old' } },
    ])
  })
})
