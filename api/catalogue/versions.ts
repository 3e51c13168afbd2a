/** Computes which sizes are available to a new database. */
import type { Kinds } from '../../cluster/index.ts'
import type { PinnedSize } from '../../crds/index.ts'
import { badRequest } from '../errors.ts'

type Size = Kinds['Size']

/** Returns the newest active version of each name, smallest first. */
export function offeredSizes(sizes: readonly Size[]): Size[] {
  const newest = new Map<string, Size>()
  for (const size of sizes) {
    const known = newest.get(size.spec.name)
    const better = known === undefined || size.spec.version > known.spec.version
    if (size.spec.status === 'active' && better) newest.set(size.spec.name, size)
  }
  return [...newest.values()].sort(
    (left, right) =>
      left.spec.shape.connections - right.spec.shape.connections || (left.spec.name < right.spec.name ? -1 : 1),
  )
}

/** @throws ApiError 400 with the reason if a size is not available */
export function sizeForNew(sizes: readonly Size[], name: string): PinnedSize {
  const offered = offeredSizes(sizes)
  const size = offered.find(candidate => candidate.spec.name === name)
  if (size !== undefined) return { name, version: size.spec.version }
  const withdrawn = sizes.filter(candidate => candidate.spec.name === name)
  const status = withdrawn.some(candidate => candidate.spec.status === 'deprecated') ? 'deprecated' : 'retired'
  const reason = withdrawn.length > 0 ? `this size is ${status} and not available to new databases` : 'unknown size'
  throw badRequest(`size: ${reason}; available: ${offered.map(({ spec }) => spec.name).join(', ') || 'none'}`)
}
