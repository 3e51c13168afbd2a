/**
 * Selects the backups that retention deletes. Each kind and purpose is counted separately. Neither age nor count
 * deletes the newest completed backup of a kind and purpose, the newest verified backup, or the start of the recovery
 * window. The newest backup before the first failed verification is also kept, because later backups may have the same
 * damage. Pure.
 */
import type { Backup, ManagedDatabaseSpec, RetentionRule } from '../../../crds/index.ts'
import { orderOf } from '../../objects/order.ts'

type Policy = ManagedDatabaseSpec['backup']
type Purpose = Backup['spec']['purpose']
type Status = NonNullable<Backup['status']>

const dayMs = 24 * 3600_000
const defaultWindowDays = 7

/** For how long the WAL of a database with the durable tier is kept, in ms. */
export const windowMs = ({ retentionDays = defaultWindowDays }: Pick<Policy, 'retentionDays'>): number =>
  retentionDays * dayMs
/** The largest count that a rule accepts. */
const highestCount = 1000

/**
 * Backups that users request are kept until users delete them. A prebranch backup is needed only until its branch has
 * copied the data, which takes less than a day.
 */
const defaults: Record<Purpose, RetentionRule> = {
  user: {},
  scheduled: { count: 30, days: 7 },
  prebranch: { days: 1 },
  prerestore: { count: 5, days: 7 },
  postrestore: { count: 5, days: 7 },
}

/** Failed backups contain no data. They are kept for some days so that users can read the reason. */
const ofFailed = { count: 10, days: 7 }

function ruleOf({ retention, retentionDays }: Policy, { kind, purpose }: Pick<Backup['spec'], 'kind' | 'purpose'>) {
  const given = retention?.[kind]?.[purpose]
  if (given !== undefined) return given
  if (purpose === 'scheduled' && retentionDays !== undefined) return { count: highestCount, days: retentionDays }
  return defaults[purpose]
}

const endedAt = ({ metadata, status }: Backup): number =>
  Date.parse(status?.finishedAt ?? metadata.creationTimestamp ?? '')

const newestFirst = (backups: readonly Backup[]): Backup[] =>
  backups.toSorted((left, right) => (orderOf(left) > orderOf(right) ? -1 : 1))

const isOld = (backup: Backup, days: number | undefined, now: number): boolean =>
  days !== undefined && now - endedAt(backup) >= days * dayMs

function surplusOfGroup(group: readonly Backup[], policy: Policy, now: number): Backup[] {
  const [first] = group
  if (first === undefined) return []
  const { count = Number.POSITIVE_INFINITY, days } = ruleOf(policy, first.spec)
  const phaseIs = (phase: string) => newestFirst(group.filter(({ status }) => status?.phase === phase))
  const completed = phaseIs('completed').filter(
    (backup, index) => index > 0 && (index >= count || isOld(backup, days, now)),
  )
  const failed = phaseIs('failed').filter(
    (backup, index) => index >= ofFailed.count || isOld(backup, ofFailed.days, now),
  )
  return [...completed, ...failed]
}

const hasFault = ({ verification, verificationResult: result }: Status): boolean =>
  verification === 'failed' || (verification === 'pending' && result?.error !== undefined)

/** During another verification, the last result counts. */
const isVerified = ({ verification, verificationResult: result }: Status): boolean =>
  verification === 'verified' || (verification === 'pending' && result !== undefined && result.error === undefined)

/** The start of the recovery window: the newest durable backup that is older than the window. */
function baseOfWindow(backups: readonly Backup[], policy: Policy, now: number): Backup | undefined {
  const completed = backups.filter(({ spec, status }) => spec.kind === 'durable' && status?.phase === 'completed')
  return newestFirst(completed).find(backup => now - endedAt(backup) >= windowMs(policy))
}

export type Retained = { backup: Backup; why: 'NewestVerified' | 'BeforeFailedVerification' }

/**
 * Returns the backups of one kind that verification keeps: the newest verified backup, and the newest backup before the
 * first one that failed verification. Backups of branches are ignored.
 */
function retainedByVerification(backups: readonly Backup[]): Retained[] {
  const own = newestFirst(
    backups.filter(({ spec, status }) => status?.phase === 'completed' && spec.sourceBranch === undefined),
  )
  const newest = own.find(({ status = {} }) => isVerified(status))
  const firstFailed = own.findLastIndex(({ status = {} }) => hasFault(status))
  const before = firstFailed === -1 ? undefined : own[firstFailed + 1]
  return [
    ...(newest === undefined ? [] : [{ backup: newest, why: 'NewestVerified' as const }]),
    ...(before === undefined || before === newest
      ? []
      : [{ backup: before, why: 'BeforeFailedVerification' as const }]),
  ]
}

/**
 * Returns the backups to delete, and those that only verification keeps. The caller must still keep a backup that
 * another object is being created from. `backups`: all backups of one database.
 */
export function retentionOf(
  backups: readonly Backup[],
  policy: Policy,
  now: number,
): { toDelete: Backup[]; retained: Retained[] } {
  const present = backups.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  const groups = Map.groupBy(present, ({ spec }) => `${spec.kind}/${spec.purpose}`)
  const surplus = new Set([...groups.values()].flatMap(group => surplusOfGroup(group, policy, now)))
  const kinds = Map.groupBy(present, ({ spec }) => spec.kind)
  const retained = [...kinds.values()].flatMap(retainedByVerification).filter(({ backup }) => surplus.has(backup))
  for (const { backup } of retained) surplus.delete(backup)
  const base = baseOfWindow(present, policy, now)
  if (base !== undefined) surplus.delete(base)
  return { toDelete: [...surplus], retained }
}
