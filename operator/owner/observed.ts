/** The observed state of every owner: its Postgres, its id and its operation. */
import type { Task } from '../../crds/index.ts'
import type { Identity } from '../workload/identity.ts'
import type { Observed as ObservedInstance } from '../workload/observed.ts'

export type Observed = ObservedInstance & {
  identity: Identity
  /** The Task of status.operation. */
  task: Task | undefined
  /**
   * Set for an object that is being deleted without a Task: its namespace is being deleted, so no Task can be created.
   */
  isNamespaceGoing?: boolean
  /** Why the operator may delete nothing by age at present. */
  clockDistrust: string | undefined
}
