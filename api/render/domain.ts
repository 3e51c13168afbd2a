/** The domain of a region, as users see it. */
import type { Kinds } from '../../cluster/index.ts'

type Region = Kinds['Region']

/**
 * The domain that the operator recorded, with the time of its last change. Without an operator, the domain of the spec.
 */
export const shownDomain = ({ spec, status }: Region): NonNullable<NonNullable<Region['status']>['domain']> =>
  status?.domain ?? { name: spec.domain }

/**
 * The host name of a database or branch: the assigned name, or a name built from its label and its region's domain.
 * Undefined if the region is deleted and no name was assigned, or if clients cannot resolve names of the region.
 */
export function shownHostName(
  { assigned, label }: { assigned: string | undefined; label: string },
  region: Region | undefined,
): string | undefined {
  if (region?.spec.domainResolves === false) return undefined
  return assigned ?? (region && `${label}.${shownDomain(region).name}`)
}
