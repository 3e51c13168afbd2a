/** The domain of a region, as users see it. */
import type { Kinds } from '../../cluster/index.ts'

type Region = Kinds['Region']

/** As the operator has noted it, beside when it became another; what is asked, where no operator has. */
export const shownDomain = ({ spec, status }: Region): NonNullable<NonNullable<Region['status']>['domain']> =>
  status?.domain ?? { name: spec.domain }

/**
 * The host name of a database or branch: as assigned, or made of its label and its region's domain. Undefined where the
 * region is gone and none was assigned, and where clients cannot resolve names of the region.
 */
export function shownHostName(
  { assigned, label }: { assigned: string | undefined; label: string },
  region: Region | undefined,
): string | undefined {
  if (region?.spec.domainResolves === false) return undefined
  return assigned ?? (region && `${label}.${shownDomain(region).name}`)
}
