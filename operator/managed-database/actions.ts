/** What the plan for a database can ask to be done: to its Postgres, and to the database itself. */
import type { ObjectMeta, PreviousVolume } from '../../crds/index.ts'
import type { Action as InstanceAction } from '../workload/actions.ts'
import type { ConnectionSecret } from './connection-secrets.ts'

export type Action =
  | InstanceAction
  /** Puts finalizer and id label on the database; without an id, a new one. */
  | { do: 'identify'; id: string | undefined }
  /** Deletes a volume of before a restore. `backup`: must be completed for that; undefined where somebody agreed. */
  | {
      do: 'delete-previous'
      volume: Pick<PreviousVolume, 'incarnation' | 'claim' | 'uid'>
      backup: Pick<ObjectMeta, 'name' | 'uid'> | undefined
    }
  /** Writes the Secret by which clients connect as a role. */
  | { do: 'write-connection-secret'; secret: ConnectionSecret }
  /** Removes the annotation `espalier.dev/force`. */
  | { do: 'remove-force' }
  /** Removes the finalizer, and leaves all that belongs to the database as it is. */
  | { do: 'orphan' }
  /** Looks at the cluster itself for anything left, and lets the database go if there is nothing. */
  | { do: 'finish-deletion' }
