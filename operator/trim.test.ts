import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, labels, recoveryWindow } from '../crds/index.ts'
import { trimBackup } from './trim.ts'

describe('the cached part of a backup', () => {
  const backup = (status: Backup['status']): Backup => ({
    apiVersion,
    kind: 'Backup',
    metadata: {
      name: 'one-1',
      namespace: 'n',
      uid: 'u',
      resourceVersion: '7',
      labels: { a: 'b' },
      annotations: { c: 'd' },
    },
    spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'user' },
    ...(status === undefined ? {} : { status }),
  })
  const finishedAt = '2026-01-01T00:00:00Z'

  test('that has ended: the fields for retention and deletion', () => {
    const trimmed = trimBackup(backup({ phase: 'completed', finishedAt, startLsn: '0/1', conditions: [] }))
    expect(trimmed).toEqual({
      ...backup(undefined),
      metadata: { name: 'one-1', namespace: 'n', uid: 'u', resourceVersion: '7', labels: { a: 'b' } },
      status: { phase: 'completed', finishedAt },
    })
  })
  test('that is in the archive: the fields for restores from the archive', () => {
    const location = {
      incarnation: 1,
      startLsn: '0/1',
      endLsn: '0/2',
      timeline: 1,
      cutAt: finishedAt,
      systemIdentifier: '7',
    }
    const complete = backup({ phase: 'completed', finishedAt, ...location, sizeBytes: 10, pgVersion: '18' })
    const durable: Backup = {
      ...complete,
      metadata: { ...complete.metadata, labels: { [labels.id]: 'b' } },
      spec: { ...complete.spec, kind: 'durable' },
    }
    const window = recoveryWindow({ status: undefined }, [durable])
    expect(window.spans).toHaveLength(1)
    expect(recoveryWindow({ status: undefined }, [trimBackup(durable)])).toEqual(window)
  })
  test.each<[string, Backup['status']]>([
    ['is in progress', { phase: 'running', startLsn: '0/1' }],
    ['waits for its Task to end', { phase: 'completed', finishedAt, taskId: 't', startLsn: '0/1' }],
  ])('that %s: all fields', (_, status) => {
    expect(trimBackup(backup(status))).toEqual(backup(status))
  })
})
