/**
 * Which backups have been kept long enough. Pure. Each kind and purpose is counted by itself, so that no number of one
 * drives out another; the newest that can be restored is never let go by its age.
 */
import type { Backup, ManagedDatabaseSpec, RetentionRule } from '../../../crds/index.ts'
import { placeOf } from '../../objects/order.ts'

type Policy = ManagedDatabaseSpec['backup']
type Purpose = Backup['spec']['purpose']

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

/** `backups`: of one database. Something may be in the making of one that has been kept long enough. */
export function surplusOf(backups: readonly Backup[], policy: Policy, now: number): Backup[] {
  const present = backups.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  const groups = Map.groupBy(present, ({ spec }) => `${spec.kind}/${spec.purpose}`)
  return [...groups.values()].flatMap(group => surplusOfGroup(group, policy, now))
}
