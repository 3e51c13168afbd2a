/** The conditions of a Region: their messages, and how they change. Pure. */
import { type Condition, notAvailable, type Region, snapshotRefusal } from '../../crds/index.ts'
import { shortened } from '../../values/text.ts'
import { timestamp } from '../../values/time.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { snapshotsNotServed } from '../objects/snapshots-not-served.ts'
import type { Served } from '../optional-informer.ts'

/**
 * In the order in which they are listed. Each exists only while there is something to report.
 * - Maintenance: the region has a maintenance window. False: no restart takes place, and why.
 * - SnapshotsReady: the region names a snapshot class. False: no hot backup can be taken, and why.
 * - CertificateReady: the region serves HTTPS. False: its certificate cannot be issued or copied, and why.
 * - ClockTrusted: exists only while the clock is not trusted. Meanwhile the operator deletes nothing by age.
 * - BackupsReady: exists only if the region names an object store; never True. Durable backups are in the
 *   installation's archive.
 */
const conditionTypes = ['Maintenance', 'SnapshotsReady', 'CertificateReady', 'ClockTrusted', 'BackupsReady'] as const
type ConditionType = (typeof conditionTypes)[number]

export type RegionFindings = Partial<Record<ConditionType, Finding>>

/** Fields of a spec that this version does not implement. Remove a field here once it is implemented. */
export const notAvailableFindings = ({ objectStore }: Region['spec']): RegionFindings =>
  objectStore === undefined
    ? {}
    : {
        BackupsReady: no(
          notAvailable,
          "spec.objectStore is not used: durable backups are stored in the installation's archive (archive.store of the chart)",
        ),
      }

/** `distrust`: why the operator deletes nothing by age. */
export const clockFindings = (distrust: string | undefined): RegionFindings =>
  distrust === undefined
    ? {}
    : {
        ClockTrusted: no(
          'ClockDoubtful',
          `the operator deletes no backup, branch, task or old volume by age: ${distrust}`,
        ),
      }

/** Whether hot backups of volumes in the region's storage are possible. */
export function snapshotFindings(region: Region, served: Served): RegionFindings {
  if (region.spec.snapshotClass === undefined || served === 'unknown') return {}
  if (served === 'absent') return { SnapshotsReady: no('SnapshotsNotServed', snapshotsNotServed) }
  const refusal = snapshotRefusal(region.metadata.name, region)
  return {
    SnapshotsReady:
      refusal === undefined ? yes('Available', 'hot backups can be taken') : no(refusal.reason, refusal.message),
  }
}

/**
 * The conditions after a pass. Other managers' conditions are kept. The operator's conditions without a finding are
 * removed.
 */
export function regionConditions(
  before: readonly Condition[],
  findings: RegionFindings,
  observedGeneration: number | undefined,
  now: number,
): Condition[] {
  const isOwn = (type: string): boolean => conditionTypes.some(own => own === type)
  const found = conditionTypes.flatMap((type): Condition[] => {
    const finding = findings[type]
    if (finding === undefined) return []
    const previous = before.find(condition => condition.type === type)
    const unchanged = previous?.status === finding.status
    const lastTransitionTime = unchanged ? previous.lastTransitionTime : timestamp(now)
    const generation = observedGeneration === undefined ? {} : { observedGeneration }
    return [{ type, ...finding, message: shortened(finding.message, 1000), ...generation, lastTransitionTime }]
  })
  return [...before.filter(({ type }) => !isOwn(type)), ...found]
}
