/** The times to which a database can be recovered from its archive, and the base backup for each. Pure. */
import type { Backup } from './backup.ts'
import type { ManagedDatabase } from './managed-database.ts'
import { labels } from './metadata.ts'
import type { RecoveryRecord, RestoreTarget } from './restore.ts'

/** A completed base backup. `endedAt`: ms since the epoch. */
type Base = Omit<RecoveryRecord, 'through'> & { endedAt: number; endLsn: string }

/**
 * A time range of one incarnation without gaps. It starts at the end of the first base backup. Times: ms since the
 * epoch.
 */
type Span = { incarnation: number; from: number; to: number; through: string; bases: readonly Base[] }

export type RecoveryWindow = {
  /** In the order of their volumes. Empty if no time can be recovered. */
  spans: readonly Span[]
}

const bytesOfLsn = (lsn: string): bigint => {
  const [high = '0', low = '0'] = lsn.split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}

function baseOf({ metadata, spec, status }: Backup): Base[] {
  const { incarnation, endLsn, cutAt, systemIdentifier, sizeBytes } = status ?? {}
  const backupId = metadata.labels?.[labels.id]
  const isUsable =
    spec.kind === 'durable' &&
    spec.sourceBranch === undefined &&
    metadata.deletionTimestamp === undefined &&
    status?.phase === 'completed'
  if (!isUsable || backupId === undefined || incarnation === undefined || systemIdentifier === undefined) return []
  if (endLsn === undefined || cutAt === undefined) return []
  const size = sizeBytes === undefined ? {} : { sizeBytes }
  return [
    { backupName: metadata.name, backupId, incarnation, systemIdentifier, ...size, endLsn, endedAt: Date.parse(cutAt) },
  ]
}

/**
 * If a base backup ended this much later than the archiving of later WAL, it was taken before the clock was set back.
 */
const setBackMs = 600_000

/**
 * The recovery window of a database. For the volume that archives, it ends at the archived position. For a volume that
 * a restore replaced, it ends at the end of its last base backup: the archive is known to have its WAL up to there.
 */
export function recoveryWindow(
  { status }: Pick<ManagedDatabase, 'status'>,
  backups: readonly Backup[],
): RecoveryWindow {
  // In WAL order, because the clock may have been set between two backups.
  const bases = backups
    .flatMap(baseOf)
    .sort((one, other) => (bytesOfLsn(one.endLsn) < bytesOfLsn(other.endLsn) ? -1 : 1))
  const numbers = [...new Set(bases.map(({ incarnation }) => incarnation))]
  const spans = numbers.flatMap((incarnation): Span[] => {
    const own = bases.filter(base => base.incarnation === incarnation)
    const last = own.at(-1)
    if (last === undefined) return []
    const present = status?.archive?.incarnation === incarnation ? status.archive : undefined
    const isThere = present !== undefined && bytesOfLsn(present.archived) >= bytesOfLsn(last.endLsn)
    const archivedAt = isThere ? Date.parse(present.archivedAt) : Number.NaN
    const reaches = archivedAt > last.endedAt || archivedAt < last.endedAt - setBackMs
    const to = reaches ? archivedAt : last.endedAt
    const from = Math.min(to, ...own.map(({ endedAt }) => endedAt))
    return [{ ...{ incarnation, from, to, bases: own }, through: isThere ? present.archived : last.endLsn }]
  })
  return { spans: spans.sort((one, other) => one.incarnation - other.incarnation) }
}

type ChosenRecovery = { record: RecoveryRecord } | { refused: string }

const iso = (at: number): string => new Date(at).toISOString()

/**
 * The part of the archive from which the target can be recovered. `refused`: why there is none. The text begins with
 * the faulty value.
 */
export function recoveryTo(window: RecoveryWindow, target: Omit<RestoreTarget, 'backupName'>): ChosenRecovery {
  const { spans } = window
  const last = spans.at(-1)
  if (last === undefined) return { refused: 'the database has no completed durable backup' }
  if (target.time !== undefined) return toTime(spans, target.time)
  if (target.lsn !== undefined) return toLsn(last, target.lsn)
  // The time of a restore point is unknown, so WAL is replayed from the first base backup on.
  const [first] = last.bases
  return first === undefined ? { refused: 'the database has no completed durable backup' } : chosen(first)
}

const chosen = ({ endedAt: _, endLsn: __, ...base }: Base, through?: string): ChosenRecovery => ({
  record: { ...base, ...(through === undefined ? {} : { through }) },
})

function toTime(spans: readonly Span[], time: string): ChosenRecovery {
  const at = Date.parse(time)
  // The window has milliseconds, and the time may have fewer digits. If it is unclear, the time counts as outside.
  const span = spans.findLast(({ from, to }) => from <= at && at <= to)
  const base = span?.bases.findLast(({ endedAt }) => endedAt <= at)
  if (span !== undefined && base !== undefined) return chosen(base, span.through)
  const known = spans.map(({ from, to }) => `${iso(from)} to ${iso(to)}`).join(', and ')
  return { refused: `${time} is not within the recovery window: ${known}` }
}

/** LSNs refer to the volume that archives. An LSN from before a restore may mean another time. */
function toLsn(span: Span, lsn: string): ChosenRecovery {
  const at = bytesOfLsn(lsn)
  const base = span.bases.findLast(({ endLsn }) => bytesOfLsn(endLsn) <= at)
  if (base !== undefined && at <= bytesOfLsn(span.through)) return chosen(base, span.through)
  return { refused: `${lsn} is not within the recovery window: ${span.bases[0]?.endLsn} to ${span.through}` }
}

/**
 * The part of the archive from which a durable backup is recovered. Undefined for any other backup, or if it is not
 * completed.
 */
export function recoveryOfBackup(backup: Backup): RecoveryRecord | undefined {
  const [base] = baseOf(backup)
  const found = base && chosen(base)
  return found && 'record' in found ? found.record : undefined
}
