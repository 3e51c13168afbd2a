/**
 * The source of a durable backup's copy. The copy replays WAL up to the last archived position, if that is known for
 * the same volume and later than the backup. Otherwise only the base backup is recovered. Pure.
 */
import { recoveryOfBackup } from '../../../crds/index.ts'
import { bytesOfLsn, type RecoverySource } from '../../../instance/recovery/source.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { Observed } from '../observed.ts'
import { recoverySource } from '../recovery.ts'

/** @returns undefined without an archive, and for a backup without a path in the archive */
export function copyRecovery(
  { backup, source }: Pick<Observed, 'backup' | 'source'>,
  pods: Pick<PodSettings, 'archive'>,
): RecoverySource | undefined {
  const record = recoveryOfBackup(backup)
  const { endLsn } = backup.status ?? {}
  if (record === undefined || endLsn === undefined) return undefined
  const archived = source?.database.kind === 'ManagedDatabase' ? source.database.status?.archive : undefined
  const isLater = archived?.incarnation === record.incarnation && bytesOfLsn(archived.archived) > bytesOfLsn(endLsn)
  const target = isLater ? { lsn: archived.archived } : {}
  const found = recoverySource({ databaseId: backup.spec.databaseId, target }, record, pods)
  return 'source' in found && found.source.kind === 'archive' ? found.source.recover : undefined
}
