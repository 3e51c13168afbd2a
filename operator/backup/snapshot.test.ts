/** Which snapshots storage may make into a volume, and what is said of one that has become one. */
import { describe, expect, test } from 'vitest'
import type { VolumeSnapshot } from '../../cluster/index.ts'
import { annotations, apiVersion, type Backup, type Region } from '../../crds/index.ts'
import { snapshotDraft } from './snapshot.ts'
import { dataSourceOf } from './source.ts'

const backupOf = (purpose: Backup['spec']['purpose'], marks: Record<string, string> = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: { name: 'b', namespace: 'n', uid: 'u', labels: { 'espalier.dev/id': 'i' }, annotations: marks },
  spec: { databaseName: 'one', databaseId: 'd', kind: 'hot', purpose },
  status: { phase: 'completed' },
})
const region: Region = {
  apiVersion,
  kind: 'Region',
  metadata: { name: 'r' },
  spec: { domain: 'd', gateway: { host: 'h', externalIpAddress: '127.0.0.1', ports: { first: 1, last: 2 } } },
}
const of = { systemIdentifier: '7', claim: 'db-1-data', claimUid: 'c' }
const marked = { [annotations.singleUse]: 'true' }
const drawn = (backup: Backup): VolumeSnapshot => snapshotDraft(backup, 'i', region, of) as VolumeSnapshot

describe('a snapshot', () => {
  test('is for one volume alone only where a branch took it for that', () => {
    const markOf = (backup: Backup) => drawn(backup).metadata.annotations?.[annotations.singleUse]
    expect(markOf(backupOf('prebranch', marked))).toBe('true')
    expect(markOf(backupOf('prebranch'))).toBeUndefined()
    expect(markOf(backupOf('user', marked))).toBeUndefined()
  })

  test('is of a volume at rest only where a restore has stopped it', () => {
    const markOf = (snapshot: Pick<VolumeSnapshot, 'metadata'>) =>
      snapshot.metadata.annotations?.[annotations.volumeAtRest]
    expect(markOf(drawn(backupOf('prerestore')))).toBe('true')
    expect(markOf(snapshotDraft(backupOf('prerestore'), 'i', region, { ...of, endLsn: '0/1' }))).toBeUndefined()
    expect(markOf(drawn(backupOf('user')))).toBeUndefined()
  })

  test('that has become a volume is refused as a source, by name', () => {
    const backup = backupOf('prebranch', marked)
    const { metadata, ...rest } = drawn(backup)
    const became = { ...metadata.annotations, [annotations.becameVolume]: 'branch-1-data' }
    const snapshot = (readyToUse: boolean) => ({
      ...rest,
      metadata: { ...metadata, annotations: became },
      status: { readyToUse },
    })
    expect(dataSourceOf(backup, snapshot(true))).toMatchObject({ source: { kind: 'snapshot' } })
    expect(dataSourceOf(backup, snapshot(false))).toEqual({
      refused: {
        reason: 'BecameVolume',
        message:
          'the data of the backup b have become the volume of the claim branch-1-data: there is nothing to restore from',
      },
    })
  })
})
