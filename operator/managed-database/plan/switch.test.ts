/** How a restored volume replaces the serving one, and when it does not. */
import { describe, expect, test } from 'vitest'
import { childNames, type ManagedDatabaseStatus, type Restore } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { ago, discarding, prerestoreBackup as made, restore, running } from '../../testing/observed-restore.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import { plan } from './index.ts'

const { now, observedOf } = reconciledDatabase()
const settings = { deadlines: { creatingMs: 1, modifyingMs: 1, restoringMs: 1, deletingMs: 1 } }
const found = observedOf()
const { owner } = found
if (owner === undefined) throw new Error('the database has no id')
const before = found.database.status
const volume = { claim: childNames.claim(owner.id, 2), uid: 'new', systemIdentifier: '7' }
const ready = (status: Partial<NonNullable<Restore['status']>> = {}, metadata = {}): Restore =>
  restore({ ...running, anchor: 'back-prerestore', volume, ...status }, metadata)
const of = { databaseName: found.database.metadata.name, databaseId: owner.id }
const backup = (phase: 'pending' | 'completed') => {
  const { metadata, ...rest } = made(phase, of)
  return { ...rest, metadata: { ...metadata, name: 'back-prerestore', uid: 'b' } }
}
const planOf = (restores: Restore[], given: Given = {}, backups = [backup('completed')]) => {
  const observed = observedOf({ ...given, rest: { backups, ...given.rest } })
  return plan({ ...observed, previous: { claims: [], restores } }, now, settings)
}
const served = { incarnation: 1, claim: before?.volume?.claim, uid: before?.volume?.uid }

describe('the switch to a restored volume', () => {
  test('replaces the recorded volume by one status write without other actions', () => {
    const { actions, status } = planOf([ready()], { status: { storageUsedBytes: 5 } })
    expect(actions).toEqual([])
    expect(status).toEqual({
      ...before,
      ...{ incarnation: 2, volume, conditions: status.conditions, storageUsedBytes: 5 },
      previous: [
        {
          ...{ ...served, replacedAt: expect.any(String), restore: 'back', restoreUid: 'u' },
          ...{ backup: 'back-prerestore', backupUid: 'b', bytes: 5 },
        },
      ],
    })
    expect(conditionOf(status, 'Ready')).toMatchObject({ status: 'False', reason: 'Restoring' })
  })
  test('is done even if its Restore is being deleted', () => {
    expect(planOf([ready({}, { deletionTimestamp: ago(0) })]).status.incarnation).toBe(2)
  })
  test('records no previous volume if none was recorded', () => {
    const { status } = planOf([ready()], { status: { volume: undefined } })
    expect([status.incarnation, status.volume, status.previous]).toEqual([2, volume, undefined])
  })
  test('clears the growth record of the old volume', () => {
    expect(
      planOf([ready()], { status: { storage: { capacity: '9Gi', since: ago(0) } } }).status.storage,
    ).toBeUndefined()
  })
  test('records with the old volume whether it may be deleted', () => {
    const [entry] = planOf([discarding(ready())], {}, [backup('pending')]).status.previous ?? []
    expect(entry).toMatchObject({ ...served, discard: true })
    expect(entry).not.toHaveProperty('backup')
  })
})

test.each<[string, Restore, Given?]>([
  ['whose data are not ready', ready({ volume: undefined })],
  ['that has failed', ready({ phase: 'failed' })],
  ['that has completed', ready({ phase: 'completed' })],
  ['that replaces another volume than the serving one', ready({ previous: { incarnation: 7 } })],
  ['that does not name the volume it replaces', ready({ previous: undefined })],
  ['with the volume of another database', ready({ volume: { ...volume, claim: 'db-other-2-data' } })],
  ['that was switched to already', ready(), { status: { incarnation: 2 }, rest: { incarnation: 2 } }],
  ['whose database is being deleted', ready(), { metadata: { deletionTimestamp: ago(0) } }],
])('a restore %s changes no volume', (_, its, given = {}) => {
  const status: ManagedDatabaseStatus = planOf([its], given).status
  const { incarnation, volume: recorded } = { ...before, ...given.status }
  expect([status.incarnation, status.volume]).toEqual([incarnation, recorded])
})
