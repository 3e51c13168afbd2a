/** Which snapshots storage may turn into a volume, and the report about one that has become a volume. */
import { describe, expect, test } from 'vitest'
import type { VolumeSnapshot } from '../../cluster/index.ts'
import { annotations, apiVersion, type Backup, type Region } from '../../crds/index.ts'
import { snapshotDraft } from './snapshot.ts'
import { dataSourceOf } from './source.ts'

const backupOf = (purpose: Backup['spec']['purpose'], objectAnnotations: Record<string, string> = {}): Backup => ({
  apiVersion,
  kind: 'Backup',
  metadata: { name: 'b', namespace: 'n', uid: 'u', labels: { 'espalier.dev/id': 'i' }, annotations: objectAnnotations },
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
const singleUse = { [annotations.singleUse]: 'true' }
const drawn = (backup: Backup): VolumeSnapshot => snapshotDraft(backup, 'i', region, of) as VolumeSnapshot

describe('a snapshot', () => {
  test('is for only one volume if a branch requested it for that', () => {
    const singleUseOf = (backup: Backup) => drawn(backup).metadata.annotations?.[annotations.singleUse]
    expect(singleUseOf(backupOf('prebranch', singleUse))).toBe('true')
    expect(singleUseOf(backupOf('prebranch'))).toBeUndefined()
    expect(singleUseOf(backupOf('user', singleUse))).toBeUndefined()
  })

  test('is of a volume at rest only if a restore has stopped it', () => {
    const singleUseOf = (snapshot: Pick<VolumeSnapshot, 'metadata'>) =>
      snapshot.metadata.annotations?.[annotations.volumeAtRest]
    expect(singleUseOf(drawn(backupOf('prerestore')))).toBe('true')
    expect(singleUseOf(snapshotDraft(backupOf('prerestore'), 'i', region, { ...of, endLsn: '0/1' }))).toBeUndefined()
    expect(singleUseOf(drawn(backupOf('user')))).toBeUndefined()
  })

  test('that has become a volume is refused as a source, by name', () => {
    const backup = backupOf('prebranch', singleUse)
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
          'the storage converted the snapshot of the backup b into the volume of the claim branch-1-data: the backup can no longer be restored',
      },
    })
  })
})
