/** Decides the result of a resize, from the current database, the recorded sizes and the request. */
import type { Kinds } from '../../cluster/index.ts'
import {
  type DatabasePhase,
  desiredHash,
  desiredStateOf,
  type ManagedDatabaseSpec,
  type PinnedSize,
  visiblePhase,
} from '../../crds/index.ts'
import { sizeInBytes } from '../../values/quantity.ts'
import { sizeForNew } from '../catalogue/versions.ts'
import { badRequest, conflict } from '../errors.ts'
import { busy, type Update } from './decide.ts'

type ManagedDatabase = Kinds['ManagedDatabase']
type Size = Kinds['Size']

/** A suspended database can be resized too, because some volumes grow only while they are not mounted. */
const takesSizes: readonly DatabasePhase[] = ['available', 'degraded', 'suspended']

/** Also allowed while the database waits for its first volume: a PVC of another size then replaces its PVC. */
const takesFirstSizes: readonly DatabasePhase[] = ['creating', 'modifying', 'degraded', 'failed']

const same = (left: PinnedSize, right: PinnedSize): boolean =>
  left.name === right.name && left.version === right.version

/** The size that applies now, whatever the desired size is. */
export const sizeInForce = ({ spec, status }: ManagedDatabase): PinnedSize => status?.size ?? spec.size

/** Why the desired size does not apply yet. undefined if it applies, or if a restart with this size is running. */
const blockerOf = ({ status }: ManagedDatabase): string | undefined => {
  const condition = status?.conditions?.find(({ type }) => type === 'SizeApplied')
  return condition === undefined || condition.reason === 'Restarting' ? undefined : condition.message
}

/** Whether the running operation is a resize that has changed nothing yet. Then another resize can replace it. */
function onlyWaitsForSize(database: ManagedDatabase): boolean {
  const operation = database.status?.operation
  const isOfThis = operation?.name === 'update-managed-size' && operation.hash === desiredHash(desiredStateOf(database))
  return isOfThis && blockerOf(database) !== undefined
}

/** Whether the operator reports that no volume exists yet, and that no pod uses one. */
const awaitsVolume = ({ status }: ManagedDatabase): boolean =>
  status?.volume === undefined &&
  status?.conditions?.some(({ type, reason }) => type === 'VolumeReady' && reason === 'Pending') === true

/**
 * Uses the newest version of a size. But a database can always return to its current version.
 * @throws ApiError 400 if the size is unavailable, is the current size, or has a smaller volume; 409 while the database
 *   is busy
 */
export function decideResize(database: ManagedDatabase, sizes: readonly Size[], name: string): Update {
  const phase = visiblePhase(database)
  const isFirst = takesFirstSizes.includes(phase) && awaitsVolume(database)
  if (!isFirst && !takesSizes.includes(phase) && !(phase === 'modifying' && onlyWaitsForSize(database)))
    throw busy(phase)
  const { spec } = database
  const inForce = sizeInForce(database)
  const isWaiting = !same(inForce, spec.size)
  const wanted = isWaiting && name === inForce.name ? inForce : sizeForNew(sizes, name)
  if (same(wanted, spec.size))
    throw isWaiting ? waits(database) : badRequest('size: the database has this size already')
  if (!isFirst) refuseSmaller(sizes, inForce, wanted)
  const next: ManagedDatabaseSpec = { ...spec, size: wanted }
  return { spec: next, operation: 'update-managed-size' }
}

const waits = (database: ManagedDatabase) =>
  conflict(
    `this size was already requested: ${blockerOf(database) ?? 'the database is being restarted with this size'}; wait for it, or request another size`,
  )

function refuseSmaller(sizes: readonly Size[], inForce: PinnedSize, wanted: PinnedSize): void {
  const storageOf = (pinned: PinnedSize) => sizes.find(({ spec }) => same(spec, pinned))?.spec.shape.storageSize
  const [has, gets] = [storageOf(inForce), storageOf(wanted)]
  if ((sizeInBytes(gets) ?? 0) < (sizeInBytes(has) ?? 0))
    throw badRequest(
      `size: ${wanted.name} has ${gets} of storage, less than the ${has} of ${inForce.name}: volumes cannot shrink`,
    )
}
