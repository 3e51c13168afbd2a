/** The actions that only the plan of a database has. Actions shared with branches are in owner/kind.ts. */
import type { Draft } from '../../cluster/index.ts'
import type { ObjectMeta, PreviousVolume } from '../../crds/index.ts'
import type { OwnerAction } from '../owner/kind.ts'
import type { ConnectionSecret } from './connection-secrets.ts'
import type { ImportAction } from './import/plan.ts'

export type OwnAction =
  | ImportAction
  /** Deletes a previous volume, only if `backup` is completed. Without `backup`, a user agreed to the deletion. */
  | {
      do: 'delete-previous'
      volume: Pick<PreviousVolume, 'incarnation' | 'claim' | 'uid'>
      backup: Pick<ObjectMeta, 'name' | 'uid'> | undefined
    }
  /** Writes the Secret that contains a role's connection details. */
  | { do: 'write-connection-secret'; secret: ConnectionSecret }
  /** Creates the Restore that the database's annotation requests. */
  | { do: 'record-restore'; draft: Draft<'Restore'> }
  /** Creates the record of a deleted database. Replaces an existing record with the same database id. */
  | { do: 'record-deletion'; draft: Draft<'ConfigMap'> }
  /** Removes the annotation `espalier.dev/force`. */
  | { do: 'remove-force' }
  /** Removes the finalizer, and keeps everything that belongs to the database. */
  | { do: 'orphan' }

export type Action = OwnerAction | OwnAction

const own: Record<OwnAction['do'], true> = {
  'delete-previous': true,
  'write-connection-secret': true,
  'record-restore': true,
  'record-deletion': true,
  'remove-force': true,
  orphan: true,
  'start-import': true,
  'end-import': true,
  'delete-import-source': true,
}

export const isOwnAction = (action: Action): action is OwnAction => action.do in own
