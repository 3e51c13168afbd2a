/**
 * The archived position of a database, which its status reports as the end of its recovery window. It is written at
 * most once a minute, and every ten minutes if nothing is written to the database. Pure.
 */
import type { ManagedDatabaseStatus } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import type { ArchiveStatus } from './contract.ts'

export type ArchivePosition = NonNullable<ManagedDatabaseStatus['archive']>

const movingMs = 60_000
const restingMs = 600_000

/**
 * The position after an answer. Returns the previous position if it is too early for an update, or if nothing is known.
 */
export function positionAfter(
  before: ArchivePosition | undefined,
  incarnation: number,
  { archived, archivedAt, timeline }: ArchiveStatus,
): ArchivePosition | undefined {
  if (archived === null || archivedAt === null) return before
  const position = {
    ...{ incarnation, archived, archivedAt: timestamp(archivedAt) },
    ...(timeline === null ? {} : { timeline }),
  }
  if (before === undefined || before.incarnation !== incarnation || before.timeline !== position.timeline)
    return position
  // If the clock was set back, the position is updated at once.
  const passedMs = Math.abs(archivedAt - Date.parse(before.archivedAt))
  return passedMs >= (before.archived === archived ? restingMs : movingMs) ? position : before
}
