/** The source of a volume: the snapshot of a completed backup. */
import { type Cluster, KindNotServedError, type VolumeSnapshot } from '../../cluster/index.ts'
import { type Backup, childNames, labels, parseMemberName } from '../../crds/index.ts'
import type { DataSource } from '../objects/instance.ts'
import { becameVolume, snapshotFacts } from './snapshot.ts'

export type BackupSource = { source: DataSource } | { refused: { reason: string; message: string } }

/** Reads the snapshot with the backup's id in its name from the cluster. */
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
  if (backup === undefined) return refused('BackupMissing', 'the backup does not exist')
  const { metadata, spec, status } = backup
  if (spec.kind === 'durable')
    return refused('NotAvailable', `the backup ${metadata.name} is durable and has no snapshot`)
  if (status?.phase !== 'completed')
    return refused('BackupNotCompleted', `the backup ${metadata.name} is not completed`)
  const facts = snapshot && snapshotFacts(backup, metadata.labels?.[labels.id] ?? '', snapshot)
  if (facts?.isOwn === true && facts.becameVolume !== undefined)
    return refused('BecameVolume', becameVolume(metadata.name, facts.becameVolume))
  if (facts === undefined || !facts.isOwn || facts.isDeleting || !facts.isReady || facts.takenFrom === undefined)
    return refused('SnapshotLost', `the snapshot of the backup ${metadata.name} does not exist or cannot be used`)
  const { claim, systemIdentifier } = facts.takenFrom
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
