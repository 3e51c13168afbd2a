/**
 * Which backups have been kept long enough. Pure. Each kind and purpose is counted by itself, so that no number of one
 * drives out another; the newest that can be restored is never let go by its age. Nor is the newest verified one, and the newest of
 * before the first failed verification: where data get damaged, every later backup is as damaged as they are.
 */
import type { Backup, ManagedDatabaseSpec, RetentionRule } from '../../../crds/index.ts'
import { placeOf } from '../../objects/order.ts'

type Policy = ManagedDatabaseSpec['backup']
type Purpose = Backup['spec']['purpose']
type Status = NonNullable<Backup['status']>

const dayMs = 24 * 3600_000
/** As many as a rule can ask for. */
const highestCount = 1000

/** What users ask for stays until they delete it. A branch has its own copy long before a day is over. */
const defaults: Record<Purpose, RetentionRule> = {
  user: {},
  scheduled: { count: 30, days: 7 },
  prebranch: { days: 1 },
  prerestore: { count: 5, days: 7 },
  postrestore: { count: 5, days: 7 },
}

/** Of those that have failed, which hold no data: why they did is of interest for a while. */
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
  backups.toSorted((left, right) => (placeOf(left) > placeOf(right) ? -1 : 1))

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

/** While it is verified again, the last result holds. */
const isVerified = ({ verification, verificationResult: result }: Status): boolean =>
  verification === 'verified' || (verification === 'pending' && result !== undefined && result.error === undefined)

export type Held = { backup: Backup; why: 'NewestVerified' | 'BeforeFailedVerification' }

/**
 * The backups of the database's own data that verification keeps, of one kind: the newest verified one; and the newest one older than
 * the first that did not pass, since that one may be damaged and so may be all that came after it.
 */
function keptByVerification(backups: readonly Backup[]): Held[] {
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
 * Which backups are deleted, and which are only kept because of verification, whatever age and count say. `backups`: of one database.
 * Something may be in the making of one that has been kept long enough.
 */
export function retentionOf(backups: readonly Backup[], policy: Policy, now: number): { goes: Backup[]; held: Held[] } {
  const present = backups.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  const groups = Map.groupBy(present, ({ spec }) => `${spec.kind}/${spec.purpose}`)
  const surplus = new Set([...groups.values()].flatMap(group => surplusOfGroup(group, policy, now)))
  const kinds = Map.groupBy(present, ({ spec }) => spec.kind)
  const held = [...kinds.values()].flatMap(keptByVerification).filter(({ backup }) => surplus.has(backup))
  for (const { backup } of held) surplus.delete(backup)
  return { goes: [...surplus], held }
}
