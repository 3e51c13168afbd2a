/** Which previous volumes are listed, why each is kept, and when one is deleted. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import {
  annotations,
  type Backup,
  labels,
  type ManagedDatabaseStatus,
  type PreviousVolume,
  type Restore,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { ago, database, now, prerestoreBackup, restore } from '../../testing/observed-restore.ts'
import { previousVolumes } from './previous.ts'

const day = 24 * 3600_000
const claim = (incarnation: number, uid: string, metadata = {}): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: `db-${incarnation}-data`, uid, labels: { [labels.incarnation]: String(incarnation) }, ...metadata },
  status: { phase: 'Bound', capacity: { storage: '1Gi' } },
})
const serving = { incarnation: 2, volume: { claim: 'db-2-data', uid: 'new', systemIdentifier: '7' } }
const backup = (phase: NonNullable<Backup['status']>['phase'] = 'completed', metadata = {}): Backup => {
  const its = prerestoreBackup(phase)
  const spec = { ...its.spec, databaseId: 'i' }
  return { ...its, spec, metadata: { ...its.metadata, name: 'back-prerestore', uid: 'backup', ...metadata } }
}
const done = (sinceMs: number, more: Partial<NonNullable<Restore['status']>> = {}): Restore =>
  restore({
    ...{ phase: 'completed', incarnation: 2, anchor: 'back-prerestore' },
    ...{ switchedAt: ago(sinceMs), finishedAt: ago(sinceMs - 5_000) },
    previous: { incarnation: 1, claim: 'db-1-data', uid: 'old' },
    ...more,
  })
type Given = {
  claims?: PersistentVolumeClaim[]
  restores?: Restore[]
  backups?: Backup[]
  status?: Partial<ManagedDatabaseStatus>
  agreed?: string
  clockDistrust?: string | undefined
}
const of = ({ claims, restores, backups, status, agreed, clockDistrust }: Given) => {
  const metadata = {
    labels: { [labels.id]: 'i' },
    annotations: agreed ? { [annotations.discardPrevious]: agreed } : {},
  }
  return previousVolumes(
    {
      database: database({ ...serving, ...status }, metadata),
      backups: backups ?? [backup()],
      previous: { claims: claims ?? [claim(2, 'new'), claim(1, 'old')], restores: restores ?? [done(60_000)] },
      clockDistrust,
    },
    now,
  )
}
const recorded: PreviousVolume = {
  ...{ incarnation: 1, claim: 'db-1-data', uid: 'old', restore: 'back', restoreUid: 'u' },
  ...{ replacedAt: ago(day), restoredAt: ago(day - 5_000), backup: 'back-prerestore', backupUid: 'backup', bytes: 5 },
}

test.each<[string, Given, string | undefined, isDeleted?: true]>([
  ['is kept for a day', {}, 'KeptForADay'],
  ['is deleted after a day', { restores: [done(day)] }, 'Deleting', true],
  ['is kept while the restore is running', { restores: [done(day, { phase: 'running' })] }, 'RestoreUnderWay'],
  [
    'is kept while the restore is running, although its deletion is allowed',
    { restores: [done(day, { phase: 'running' })], agreed: 'old' },
    'RestoreUnderWay',
  ],
  ['is kept after a failed restore', { restores: [done(day, { phase: 'failed' })] }, 'RestoreFailed'],
  [
    'is deleted after a failed restore if a user allows it',
    { restores: [done(day, { phase: 'failed' })], agreed: 'old' },
    'Deleting',
    true,
  ],
  [
    'is kept if a user allows the deletion of other volumes',
    { restores: [done(day, { phase: 'failed' })], agreed: 'new,older' },
    'RestoreFailed',
  ],
  ['is kept without a prerestore backup', { restores: [done(day)], backups: [] }, 'NoBackup'],
  ['is kept if the prerestore backup failed', { restores: [done(day)], backups: [backup('failed')] }, 'NoBackup'],
  [
    'is kept if the prerestore backup is being deleted',
    { restores: [done(day)], backups: [backup('completed', { deletionTimestamp: ago(0) })] },
    'NoBackup',
  ],
  [
    'is kept if the backup is not of the operator',
    { restores: [done(day)], backups: [backup('completed', { labels: {} })] },
    'NoBackup',
  ],
  ['is kept if the prerestore backup was refused', { restores: [done(day, { anchorRefused: 'why' })] }, 'NoBackup'],
  [
    'is kept if another backup has the recorded name',
    { status: { previous: [recorded] }, backups: [backup('completed', { uid: 'other' })], restores: [] },
    'NoBackup',
  ],
  [
    'is deleted by its record if the Restore no longer exists',
    { status: { previous: [recorded] }, restores: [] },
    'Deleting',
    true,
  ],
  [
    'is deleted at once if the restore requested that',
    { status: { previous: [{ ...recorded, discard: true, replacedAt: ago(0) }] }, restores: [], backups: [] },
    'Deleting',
    true,
  ],
  [
    'is kept until that restore has completed',
    { status: { previous: [{ ...recorded, discard: true, restoredAt: undefined }] }, restores: [] },
    'RestoreUnknown',
  ],
  ['is kept if no restore is known', { restores: [] }, 'RestoreUnknown'],
  ['is deleted if no restore is known and a user allows it', { restores: [], agreed: ' old ' }, 'Deleting', true],
  [
    'that is being deleted is waited for',
    { claims: [claim(1, 'old', { deletionTimestamp: ago(0) })], agreed: 'old' },
    'Deleting',
  ],
  ['that serves is not a previous volume', { claims: [claim(2, 'new')] }, undefined],
  ['that will serve is not a previous volume', { claims: [claim(3, 'next')] }, undefined],
  [
    'that never served is not a previous volume',
    { claims: [claim(1, 'x')], restores: [restore({ phase: 'failed', incarnation: 1 })] },
    undefined,
  ],
  [
    'without an incarnation is not a previous volume',
    { claims: [claim(1, 'x', { labels: {} })], restores: [] },
    undefined,
  ],
])('a volume %s', (_, given, reason, isDeleted) => {
  const { volumes, actions, finding } = of(given)
  expect(volumes?.map(volume => volume.reason)).toEqual(reason === undefined ? undefined : [reason])
  expect(actions.map(action => action.do)).toEqual(isDeleted ? ['delete-previous'] : [])
  expect(finding === undefined).toBe(reason === undefined)
})

describe('on record', () => {
  test('is the volume that the Restore names, with permission to delete it', () => {
    const [volume] = of({ restores: [done(60_000, {})] }).volumes ?? []
    expect(volume).toMatchObject({
      ...{ incarnation: 1, claim: 'db-1-data', uid: 'old', restore: 'back', restoreUid: 'u' },
      ...{ replacedAt: ago(60_000), restoredAt: ago(55_000), backup: 'back-prerestore', backupUid: 'backup' },
      ...{ bytes: 2 ** 30, keptUntil: timestamp(now - 60_000 + day) },
    })
    const after = of({ restores: [], status: { previous: volume && [volume] } })
    expect(after.volumes).toEqual([volume])
    expect(after.requeueAt).toBe(now - 60_000 + day)
  })
  test('a Restore that has the name of another one does not count', () => {
    const failed = { ...recorded, restoredAt: undefined }
    const other = { ...done(day), metadata: { ...done(day).metadata, uid: 'v' } }
    const next = { ...other, status: { ...other.status, previous: { incarnation: 2, uid: 'x' } } }
    expect(of({ restores: [next], status: { previous: [failed] } }).volumes?.[0]?.reason).toBe('RestoreUnknown')
  })
  test('is not changed if no volume is known to serve', () => {
    const status = { previous: [recorded], volume: undefined }
    expect(of({ status, agreed: 'old' })).toMatchObject({ volumes: [recorded], actions: [] })
  })
  test('is reported with its size and what to do', () => {
    const two = { claims: [claim(1, 'old'), claim(3, 'third'), claim(4, 'new')], status: { incarnation: 4 } }
    expect(of(two).finding).toMatchObject({ reason: 'AwaitsAgreement' })
    expect(of(two).finding?.message).toMatch(
      /^2 previous volumes are kept \(2\.1 GB\)\. Volume 3: .*discard-previous=third on the ManagedDatabase$/,
    )
    expect(of({}).finding).toMatchObject({
      reason: 'Kept',
      message: expect.stringMatching(/^1 previous volume .*1\.1 GB/),
    })
  })
})

test('a previous volume without an agreement is deleted only after a day, a completed restore and with its backup', () => {
  const phases = fc.constantFrom('pending' as const, 'running' as const, 'completed' as const, 'failed' as const)
  const ms = fc.integer({ min: 0, max: 3 * day })
  const perhaps = fc.option(fc.constant(recorded), { nil: undefined })
  fc.assert(
    fc.property(
      phases,
      phases,
      ms,
      fc.boolean(),
      fc.boolean(),
      perhaps,
      (phase, taken, since, isThere, isKnown, entry) => {
        const restores = isKnown ? [done(since, { phase })] : []
        const backups = isThere ? [backup(taken)] : []
        const previous = entry && [
          { ...entry, replacedAt: ago(since), restoredAt: isKnown ? undefined : entry.restoredAt },
        ]
        const { actions } = of({ restores, backups, status: previous === undefined ? {} : { previous } })
        if (actions.length === 0) return
        expect([isThere, taken]).toEqual([true, 'completed'])
        expect(since).toBeGreaterThanOrEqual(day - 1_000)
        expect(isKnown ? phase : 'completed').toBe('completed')
      },
    ),
  )
})

test('a previous volume is not deleted by age while the clock is uncertain, but by agreement', () => {
  const old = { status: { previous: [recorded] }, restores: [], clockDistrust: 'the clock was set' }
  const retained = of(old)
  expect([retained.volumes?.[0]?.reason, retained.actions]).toEqual(['ClockDoubtful', []])
  expect(of({ ...old, agreed: 'old' }).actions).toHaveLength(1)
  expect(of({ ...old, clockDistrust: undefined }).actions).toHaveLength(1)
})
