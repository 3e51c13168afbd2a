/**
 * Decides which volume a claim gets, like a cluster's controller manager. Pure. A volume that names a claim is reserved
 * for this claim. A claim that names a volume accepts no other volume. A bound claim whose volume is missing is lost.
 */
import type { PersistentVolume, PersistentVolumeClaim } from '../../../cluster/index.ts'
import { parseQuantity } from '../../../values/quantity.ts'
import { bindCompleted, newVolumeName } from './persistent-volume.ts'

type Binding =
  /** Claim and volume name each other. */
  | { kind: 'bound'; volume: PersistentVolume }
  /** The volume is free for this claim. */
  | { kind: 'bind'; volume: PersistentVolume }
  /** A directory must be created for the claim. */
  | { kind: 'provision' }
  /** The claim was bound before PersistentVolumes existed: a volume must be created for its directory. */
  | { kind: 'adopt' }
  | { kind: 'wait'; reason: string; message: string }
  | { kind: 'lost'; message: string }

export type Volumes = {
  get(name: string): PersistentVolume | undefined
  list(): PersistentVolume[]
}

export function decideBinding(claim: PersistentVolumeClaim, volumes: Volumes): Binding {
  const { volumeName } = claim.spec ?? {}
  if (volumeName === undefined || volumeName === '') return findVolume(claim, volumes.list())
  const volume = volumes.get(volumeName)
  if (volume === undefined) return withoutVolume(claim, volumeName)
  const { claimRef } = volume.spec ?? {}
  if (claimRef?.uid === claim.metadata.uid) return { kind: 'bound', volume }
  const isFree = claimRef === undefined || namesClaim(claim, volume)
  if (isBound(claim)) {
    return isFree
      ? { kind: 'bind', volume }
      : { kind: 'lost', message: `volume "${volumeName}" is bound to another claim` }
  }
  if (!isFree) return wait('FailedBinding', `volume "${volumeName}" already bound to a different claim.`)
  if (volume.metadata.deletionTimestamp !== undefined)
    return wait('FailedBinding', `volume "${volumeName}" is being deleted`)
  const mismatch = mismatchOf(claim, volume)
  return mismatch === undefined
    ? { kind: 'bind', volume }
    : wait('VolumeMismatch', `Cannot bind to requested volume "${volumeName}": ${mismatch}`)
}

const wait = (reason: string, message: string): Binding => ({ kind: 'wait', reason, message })

const isBound = ({ metadata }: PersistentVolumeClaim): boolean => metadata.annotations?.[bindCompleted] !== undefined

function withoutVolume(claim: PersistentVolumeClaim, volumeName: string): Binding {
  if (isBound(claim)) {
    return { kind: 'lost', message: 'Bound claim has lost its PersistentVolume. Data on the volume is lost!' }
  }
  // Releases before PersistentVolumes existed wrote this name into a claim first.
  if (volumeName === newVolumeName(claim)) {
    const { phase } = claim.status ?? {}
    return { kind: phase === 'Bound' || phase === 'Lost' ? 'adopt' : 'provision' }
  }
  return wait('FailedBinding', `volume "${volumeName}" not found`)
}

/** Whether a volume names this claim: bound to it or reserved for it. */
function namesClaim({ metadata }: PersistentVolumeClaim, { spec }: PersistentVolume): boolean {
  const { claimRef } = spec ?? {}
  const isNamed = claimRef?.namespace === metadata.namespace && claimRef?.name === metadata.name
  return isNamed && (!claimRef?.uid || claimRef.uid === metadata.uid)
}

/** A claim without a volume name. */
function findVolume(claim: PersistentVolumeClaim, all: PersistentVolume[]): Binding {
  const volumes = all.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
  const own = volumes.find(({ spec }) => spec?.claimRef?.uid === claim.metadata.uid)
  if (own !== undefined) return { kind: 'bind', volume: own }
  const fitting = volumes.filter(volume => mismatchOf(claim, volume) === undefined)
  const reserved = fitting.find(volume => namesClaim(claim, volume))
  if (reserved !== undefined) return { kind: 'bind', volume: reserved }
  // A claim with a data source does not accept a volume with other data.
  const hasDataSource = (claim.spec?.dataSource ?? claim.spec?.dataSourceRef) !== undefined
  const free = hasDataSource ? [] : fitting.filter(({ spec }) => spec?.claimRef === undefined)
  const [smallest] = free.sort((one, other) => capacityOf(one) - capacityOf(other))
  if (smallest !== undefined) return { kind: 'bind', volume: smallest }
  if (claim.spec?.storageClassName !== '') return { kind: 'provision' }
  return wait('FailedBinding', 'no persistent volumes available for this claim and no storage class is set')
}

const capacityOf = ({ spec }: PersistentVolume): number => parseQuantity(spec?.capacity?.storage) ?? 0
const requestOf = ({ spec }: PersistentVolumeClaim): number => parseQuantity(spec?.resources?.requests?.storage) ?? 0

/** Why a volume does not match a claim. */
function mismatchOf(claim: PersistentVolumeClaim, volume: PersistentVolume): string | undefined {
  const { storageClassName: wanted = '', volumeMode = 'Filesystem', accessModes = [] } = claim.spec ?? {}
  if (capacityOf(volume) < requestOf(claim)) return 'requested PV is too small'
  if ((volume.spec?.storageClassName ?? '') !== wanted) return 'storageClassName does not match'
  if ((volume.spec?.volumeMode ?? 'Filesystem') !== volumeMode) return 'incompatible volumeMode'
  if (!accessModes.every(mode => volume.spec?.accessModes?.includes(mode))) return 'incompatible accessMode'
  return undefined
}
