import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup } from '../crds/index.ts'
import { slimBackup } from './slim.ts'

describe('what is kept of a backup', () => {
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
    const kept = slimBackup(backup({ phase: 'completed', finishedAt, startLsn: '0/1', conditions: [] }))
    expect(kept).toEqual({
      ...backup(undefined),
      metadata: { name: 'one-1', namespace: 'n', uid: 'u', resourceVersion: '7', labels: { a: 'b' } },
      status: { phase: 'completed', finishedAt },
    })
  })
  test.each<[string, Backup['status']]>([
    ['is under way', { phase: 'running', startLsn: '0/1' }],
    ['waits for its Task to end', { phase: 'completed', finishedAt, taskId: 't', startLsn: '0/1' }],
  ])('that %s: all fields', (_, status) => {
    expect(slimBackup(backup(status))).toEqual(backup(status))
  })
})
