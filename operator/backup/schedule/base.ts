/**
 * Decides when to take the durable backup that starts a database's recovery window. It is needed if the database
 * archives and its current volume has no completed durable backup, for example after a restore. Without it, no point in
 * time can be restored and no WAL is deleted. Pure.
 */
import type { Backup, ManagedDatabase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { isUnderWay } from '../observe.ts'

/** The delay after a failed attempt, in ms. */
const retryMs = 3600_000
const prefixOf = (databaseName: string): string => `${databaseName}-base-`

export const isBase = ({ metadata, spec }: Backup): boolean => metadata.name.startsWith(prefixOf(spec.databaseName))

/** The name stays the same for an hour, so that a retry after a crash creates no second backup. */
const nameOf = (database: string, incarnation: number, now: number): string =>
  `${prefixOf(database)}${incarnation}-${Math.floor(now / retryMs)}`

/** Undefined if no such backup is needed, or one is being taken. `backups`: all backups of the database. */
export function nextBase(
  { metadata, status }: Pick<ManagedDatabase, 'metadata' | 'status'>,
  backups: readonly Backup[],
  now: number,
): { name: string; takeAt: number } | undefined {
  const { incarnation, archive } = status ?? {}
  const archives = archive?.incarnation === incarnation && conditionOf(status, 'Archiving')?.status === 'True'
  if (incarnation === undefined || !archives) return undefined
  const durable = backups.filter(
    backup => backup.spec.kind === 'durable' && backup.metadata.deletionTimestamp === undefined,
  )
  if (durable.some(isUnderWay)) return undefined
  if (durable.some(({ status: of }) => of?.phase === 'completed' && of.incarnation === incarnation)) return undefined
  const failedAt = durable
    .filter(backup => backup.status?.phase === 'failed' && isBase(backup))
    .map(backup => Date.parse(backup.status?.finishedAt ?? ''))
  const takeAt = Math.max(now, ...failedAt.map(at => at + retryMs))
  return { name: nameOf(metadata.name, incarnation, takeAt), takeAt }
}
