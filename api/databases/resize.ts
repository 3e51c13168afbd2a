/** What a resize comes to: a pure function of the database as it is now, of the sizes on record and of what is asked. */
import type { Kinds } from '../../cluster/index.ts'
import {
  askedBy,
  type DatabasePhase,
  desiredHash,
  type ManagedDatabaseSpec,
  type PinnedSize,
  visiblePhase,
} from '../../crds/index.ts'
import { bytesTold } from '../../values/quantity.ts'
import { sizeForNew } from '../catalogue/versions.ts'
import { badRequest, conflict } from '../errors.ts'
import { busy, type Update } from './decide.ts'

type ManagedDatabase = Kinds['ManagedDatabase']
type Size = Kinds['Size']

/** A suspended database takes one, too: some volumes only grow while nobody uses them. */
const takesSizes: readonly DatabasePhase[] = ['available', 'degraded', 'suspended']

/** Takes one, too, while it waits for the first volume of its life: its claim is replaced by one of another size. */
const takesFirstSizes: readonly DatabasePhase[] = ['creating', 'modifying', 'degraded', 'failed']

const same = (left: PinnedSize, right: PinnedSize): boolean =>
  left.name === right.name && left.version === right.version

/** The size that a database has, whatever it is to have. */
export const sizeInForce = ({ spec, status }: ManagedDatabase): PinnedSize => status?.size ?? spec.size

/** Why a database has not the size it is to have; undefined where it has, or is being restarted with it. */
const hindrance = ({ status }: ManagedDatabase): string | undefined => {
  const told = status?.conditions?.find(({ type }) => type === 'SizeApplied')
  return told === undefined || told.reason === 'Restarting' ? undefined : told.message
}

/** Whether nothing runs but a resize that has changed nothing yet, so that another can take its place. */
function onlyWaitsForSize(database: ManagedDatabase): boolean {
  const operation = database.status?.operation
  const isOfThis = operation?.name === 'update-managed-size' && operation.hash === desiredHash(askedBy(database))
  return isOfThis && hindrance(database) !== undefined
}

/** Whether the operator says that there is no volume yet, and nothing has come to stand on one. */
const awaitsVolume = ({ status }: ManagedDatabase): boolean =>
  status?.volume === undefined &&
  status?.conditions?.some(({ type, reason }) => type === 'VolumeReady' && reason === 'Pending') === true

/**
 * Of several versions of a size the newest counts, but for the one that a database has: to that it can always return.
 * @throws ApiError 400 where the size cannot be had, is the one it has, or is smaller on disk; 409 while it is busy
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
    `this size was already asked for: ${hindrance(database) ?? 'it is being restarted with it'}; wait for it, or ask for another size`,
  )

function refuseSmaller(sizes: readonly Size[], inForce: PinnedSize, wanted: PinnedSize): void {
  const storageOf = (pinned: PinnedSize) => sizes.find(({ spec }) => same(spec, pinned))?.spec.shape.storageSize
  const [has, gets] = [storageOf(inForce), storageOf(wanted)]
  if ((bytesTold(gets) ?? 0) < (bytesTold(has) ?? 0))
    throw badRequest(
      `size: ${wanted.name} has ${gets} of storage, less than the ${has} of ${inForce.name}: volumes never shrink`,
    )
}
