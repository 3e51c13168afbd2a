/**
 * When a database needs a durable backup to start its recovery window: while it archives and has none of the serving
 * volume, as after a restore in place or after enabling the durable tier. Without one, no moment can be restored and no
 * WAL expires. Pure.
 */
import type { Backup, ManagedDatabase } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { isUnderWay } from '../observe.ts'

/** After a failed attempt. */
const retryMs = 3600_000
const prefixOf = (databaseName: string): string => `${databaseName}-base-`

export const isBase = ({ metadata, spec }: Backup): boolean => metadata.name.startsWith(prefixOf(spec.databaseName))

/** The same for an hour, so that a pass after a crash creates no second one. */
const nameOf = (database: string, incarnation: number, now: number): string =>
  `${prefixOf(database)}${incarnation}-${Math.floor(now / retryMs)}`

/** `backups`: of the database. Undefined if none is needed, or one is being taken. */
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
