/** Actions that only the plan of services can request. */

import type { ChildAction } from '../children/actions.ts'
import type { NamedWorkload } from './names.ts'
import type { MintedSecret } from './observed.ts'

type Observed = { name: string; namespace: string; uid: string }

export type OwnServiceAction =
  | ({ do: 'mint-service-secret' } & MintedSecret)
  /** Creates the immutable Secret that the pods of a workload mount. */
  | ({ do: 'create-service-configuration' } & NamedWorkload)
  /** Deletes a Deployment, unless its service still selects it. */
  | ({ do: 'delete-service-workload' } & NamedWorkload & Observed)
  /** Deletes the Secret of a workload, unless its Deployment still exists. */
  | ({ do: 'delete-service-configuration' } & NamedWorkload & Observed)

export type ServiceAction = OwnServiceAction | ChildAction
