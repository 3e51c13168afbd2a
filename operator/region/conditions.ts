/** The conditions of a Region: what each says, and how they change. Pure. */
import { type Condition, notAvailable, type Region, snapshotRefusal } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { snapshotsNotServed } from '../objects/snapshots-not-served.ts'
import type { Served } from '../optional-informer.ts'

/**
 * In the order in which they are listed; each there only while there is something to say.
 * - Maintenance: the region has a window. True: all is well; False: what is planned does not happen, and why.
 * - SnapshotsReady: a snapshot class is named. False: no hot backup can be taken, and why.
 * - CertificateReady: the region serves HTTPS. False: its certificate cannot be issued or copied, and why.
 * - ClockTrusted: only while it is not: nothing is deleted by its age meanwhile.
 * - BackupsReady: only where an object store is named, and never True yet: nothing takes durable backups.
 */
const conditionTypes = ['Maintenance', 'SnapshotsReady', 'CertificateReady', 'ClockTrusted', 'BackupsReady'] as const
type ConditionType = (typeof conditionTypes)[number]

export type RegionFindings = Partial<Record<ConditionType, Finding>>

/** What a spec asks for that this version does not do. A part that comes to be done goes from here. */
export const notAvailableFindings = ({ objectStore }: Region['spec']): RegionFindings =>
  objectStore === undefined
    ? {}
    : {
        BackupsReady: no(
          notAvailable,
          'durable backups are not taken by this version; nothing comes of spec.objectStore',
        ),
      }

/** `doubt`: why nothing is deleted by its age. */
export const clockFindings = (doubt: string | undefined): RegionFindings =>
  doubt === undefined
    ? {}
    : { ClockTrusted: no('ClockDoubtful', `no backup, branch, task or old volume is deleted by its age: ${doubt}`) }

/** Whether hot backups can be taken of what stands on the region's storage. */
export function snapshotFindings(region: Region, served: Served): RegionFindings {
  if (region.spec.snapshotClass === undefined || served === 'unknown') return {}
  if (served === 'absent') return { SnapshotsReady: no('SnapshotsNotServed', snapshotsNotServed) }
  const refusal = snapshotRefusal(region.metadata.name, region)
  return {
    SnapshotsReady:
      refusal === undefined ? yes('Available', 'hot backups can be taken') : no(refusal.reason, refusal.message),
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
