/** The conditions of a Region: what each says, and how they change. Pure. */
import { type Condition, notAvailable, type Region } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Finding, no } from '../objects/conditions.ts'

/**
 * In the order in which they are listed; each there only while there is something to say.
 * - Maintenance: the region has a window. True: all is well; False: what is planned does not happen, and why.
 * - SnapshotsReady, BackupsReady: only where a snapshot class or an object store is named, and never True yet: nothing
 *   makes snapshots or takes backups.
 */
const conditionTypes = ['Maintenance', 'SnapshotsReady', 'BackupsReady'] as const
type ConditionType = (typeof conditionTypes)[number]

export type RegionFindings = Partial<Record<ConditionType, Finding>>

/** What a spec asks for that this version does not do. A part that comes to be done goes from here. */
export function notAvailableFindings({ snapshotClass, objectStore }: Region['spec']): RegionFindings {
  return {
    ...(snapshotClass === undefined
      ? {}
      : {
          SnapshotsReady: no(
            notAvailable,
            'snapshots are not made by this version; nothing comes of spec.snapshotClass',
          ),
        }),
    ...(objectStore === undefined
      ? {}
      : {
          BackupsReady: no(notAvailable, 'backups are not taken by this version; nothing comes of spec.objectStore'),
        }),
  }
}

/** The conditions after a pass. What others wrote stays; of ours, what nothing was found about goes. */
export function regionConditions(
  before: readonly Condition[],
  findings: RegionFindings,
  observedGeneration: number | undefined,
  now: number,
): Condition[] {
  const isOurs = (type: string): boolean => conditionTypes.some(ours => ours === type)
  const found = conditionTypes.flatMap((type): Condition[] => {
    const finding = findings[type]
    if (finding === undefined) return []
    const previous = before.find(condition => condition.type === type)
    const unchanged = previous?.status === finding.status
    const lastTransitionTime = unchanged ? previous.lastTransitionTime : timestamp(now)
    const generation = observedGeneration === undefined ? {} : { observedGeneration }
    return [{ type, ...finding, message: finding.message.slice(0, 1000), ...generation, lastTransitionTime }]
  })
  return [...before.filter(({ type }) => !isOurs(type)), ...found]
}
