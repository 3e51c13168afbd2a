/** The observed state of every owner: its Postgres, its id, and its operation. */
import type { Task } from '../../crds/index.ts'
import type { Identity } from '../workload/identity.ts'
import type { Observed as ObservedInstance } from '../workload/observed.ts'

export type Observed = ObservedInstance & {
  identity: Identity
  /** The Task of status.operation. */
  task: Task | undefined
  /** Of an object being deleted without a Task: its namespace is being deleted, so that no Task can be created. */
  isNamespaceGoing?: boolean
  /** Why nothing may be deleted by age now. */
  clockDistrust: string | undefined
}
