/** When a durable backup is taken to start the recovery window. */
import { expect, test } from 'vitest'
import { apiVersion, type Backup, type ManagedDatabase } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { isBase, nextBase } from './base.ts'

const hourMs = 3600_000
const now = 500_000 * hourMs + 1
const archived = (archiving: 'True' | 'False', archive: number): Pick<ManagedDatabase, 'metadata' | 'status'> => ({
  metadata: { name: 'one', namespace: 'n' },
  status: {
    incarnation: 2,
    archive: { incarnation: archive, archived: '0/1', archivedAt: timestamp(now) },
    conditions: [
      { type: 'Archiving', status: archiving, reason: 'R', message: '', lastTransitionTime: timestamp(now) },
    ],
  },
})
const database = archived('True', 2)
const backup = (status: Backup['status'], name = 'one-base-2-1', metadata = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: { name, namespace: 'n', ...metadata },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'durable', purpose: 'scheduled' },
  status: status?.phase === 'completed' ? { finishedAt: timestamp(now), ...status } : status,
})
const due = { name: 'one-base-2-500000', takeAt: now }

test.each([
  ['there is none', []],
  ['all are of the previous volume', [backup({ phase: 'completed', incarnation: 1 })]],
  ['the only one is being deleted', [backup({ phase: 'completed', incarnation: 2 }, 'x', { deletionTimestamp: 'x' })]],
  ['the only one is hot', [{ ...backup({ phase: 'completed' }), spec: { ...backup({}).spec, kind: 'hot' as const } }]],
  ['one of a user failed', [backup({ phase: 'failed', finishedAt: timestamp(now) }, 'mine')]],
])('is due if %s', (_, backups) => {
  expect(nextBase(database, backups, now)).toEqual(due)
})

test('is not due if one exists or is being taken', () => {
  expect(nextBase(database, [backup({ phase: 'completed', incarnation: 2 }, 'mine')], now)).toBeUndefined()
  expect(nextBase(database, [backup({ phase: 'running', incarnation: 2 })], now)).toBeUndefined()
  expect(nextBase(database, [backup({})], now)).toBeUndefined()
})

test('is not due before the serving volume archives', () => {
  expect(nextBase(archived('False', 2), [], now)).toBeUndefined()
  expect(nextBase(archived('True', 1), [], now)).toBeUndefined()
})

test('is retried one hour after a failure, under another name', () => {
  const failed = backup({ phase: 'failed', finishedAt: timestamp(now - 1) })
  const next = nextBase(database, [failed], now)
  expect(next?.name).toBe('one-base-2-500000'.replace('500000', String(Math.floor((next?.takeAt ?? 0) / hourMs))))
  expect(next?.takeAt).toBe(Date.parse(timestamp(now - 1)) + hourMs)
})

test('is recognised by its name', () => {
  expect(isBase(backup({}))).toBe(true)
  expect(isBase(backup({}, 'one-durable-20260101-020000'))).toBe(false)
})
