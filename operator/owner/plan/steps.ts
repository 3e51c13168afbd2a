/** The first steps of every owner's plan. Pure. */
import { type ObjectMeta, teardownFinalizer } from '../../../crds/index.ts'
import { recordFromClaim } from '../../member/storage/plan/record.ts'
import type { Finding } from '../../objects/conditions.ts'
import type { VolumeRecord } from '../../objects/instance.ts'
import type { Owner } from '../../objects/ownership.ts'
import { missingKey } from '../../workload/plan/keys.ts'
import { ownershipActions } from '../../workload/plan/ownership-actions.ts'
import type { OwnerAction, Plan } from '../kind.ts'
import type { Observed } from '../observed.ts'

/** A plan without actions that keeps the status. */
export const nothing = <Status>(status: Status): Plan<never, Status> => ({
  actions: [],
  status,
  awaitsPostgres: false,
  awaitsGateways: false,
  configurationDigest: undefined,
  requeueAt: undefined,
})

export const hasFinalizer = ({ finalizers }: ObjectMeta): boolean => finalizers?.includes(teardownFinalizer) === true

type Labelling =
  /**
   * The operator creates and changes nothing without a key, because it never creates a key again over existing data. It
   * only removes owner references.
   */
  | { state: 'key-missing'; finding: Finding; actions: OwnerAction[] }
  /** Children lack the operator's labels or annotations. The operator first adds them. */
  | { state: 'unlabelled'; actions: OwnerAction[] }
  /** `actions`: labels that no other work waits for. */
  | { state: 'labelled'; actions: OwnerAction[] }

export function labelling(observed: Observed, { isGoing }: { isGoing: boolean }): Labelling {
  const finding = missingKey(observed)
  if (finding !== undefined)
    return { state: 'key-missing', finding, actions: ownershipActions(observed, { isGoing: false }).referring }
  const { referring, ofChildren, others } = ownershipActions(observed, { isGoing })
  const urgent = [...referring, ...ofChildren]
  if (urgent.length > 0) return { state: 'unlabelled', actions: [...urgent, ...others] }
  return { state: 'labelled', actions: others }
}

type Identification =
  /** A user must decide who owns the data. Until then the operator changes and stops nothing. */
  | { state: 'contested'; why: string }
  | { state: 'unidentified'; actions: OwnerAction[] }
  | { state: 'identified'; owner: Owner }

export function identification({ identity, instance }: Observed): Identification {
  if (identity.state === 'contested') return identity
  if (identity.state === 'settled' && hasFinalizer(instance.metadata))
    return { state: 'identified', owner: identity.owner }
  const id = identity.state === 'settled' ? identity.owner.id : identity.id
  return { state: 'unidentified', actions: [{ do: 'identify', id }] }
}

/** The record of a volume that was found. The operator writes it first, because all later decisions depend on it. */
export function foundRecord(observed: Observed): { incarnation: number; volume: VolumeRecord } | undefined {
  const volume = recordFromClaim(observed)
  return volume === undefined ? undefined : { incarnation: observed.incarnation, volume }
}
