/** The domain of a region, as users see it. */
import type { Kinds } from '../../cluster/index.ts'

type Region = Kinds['Region']

/** As the operator has noted it, beside when it became another; what is asked, where no operator has. */
export const shownDomain = ({ spec, status }: Region): NonNullable<NonNullable<Region['status']>['domain']> =>
  status?.domain ?? { name: spec.domain }
