/** What a volume can be made from: the snapshot of a completed backup. */
import { type Cluster, KindNotServedError, type VolumeSnapshot } from '../../cluster/index.ts'
import { type Backup, childNames, labels, parseMemberName } from '../../crds/index.ts'
import type { DataSource } from '../objects/instance.ts'
import { becameVolume, snapshotFacts } from './snapshot.ts'

/** `snapshot`: the one under the backup's name. */
export type BackupSource = { source: DataSource } | { refused: { reason: string; message: string } }

/** The snapshot under a backup's name, by the cluster's own word. */
export async function snapshotOf(cluster: Cluster, { metadata }: Backup): Promise<VolumeSnapshot | undefined> {
  const id = metadata.labels?.[labels.id]
  if (id === undefined) return undefined
  try {
    return await cluster.get('VolumeSnapshot', { namespace: metadata.namespace, name: childNames.snapshot(id) })
  } catch (error) {
    if (error instanceof KindNotServedError) return undefined
    throw error
  }
}

const refused = (reason: string, message: string): BackupSource => ({ refused: { reason, message } })

export function dataSourceOf(backup: Backup | undefined, snapshot: VolumeSnapshot | undefined): BackupSource {
  if (backup === undefined) return refused('BackupMissing', 'the backup is not there')
  const { metadata, spec, status } = backup
  if (status?.phase !== 'completed')
    return refused('BackupNotCompleted', `the backup ${metadata.name} is not a completed one`)
  const facts = snapshot && snapshotFacts(backup, metadata.labels?.[labels.id] ?? '', snapshot)
  if (facts?.isOurs === true && facts.becameVolume !== undefined)
    return refused('BecameVolume', becameVolume(metadata.name, facts.becameVolume))
  if (facts === undefined || !facts.isOurs || facts.isGoing || !facts.isReady || facts.cutOf === undefined)
    return refused('SnapshotLost', `the snapshot of the backup ${metadata.name} is gone, or is being deleted`)
  const { claim, systemIdentifier } = facts.cutOf
  const { incarnation, number } = parseMemberName('claim', claim) ?? {}
  return {
    source: {
      kind: 'snapshot',
      snapshot: facts.name,
      id: spec.sourceBranch?.id ?? spec.databaseId,
      incarnation,
      member: number,
      systemIdentifier,
      bytes: facts.bytes ?? 0,
    },
  }
}
