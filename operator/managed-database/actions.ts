/** What the plan for a database can request of the database itself, besides what it can of every owner. */
import type { Draft } from '../../cluster/index.ts'
import type { ObjectMeta, PreviousVolume } from '../../crds/index.ts'
import type { OwnerAction } from '../owner/kind.ts'
import type { ConnectionSecret } from './connection-secrets.ts'

export type OwnAction =
  /** Deletes a previous volume. `backup`: must be completed for that; undefined where a user has agreed. */
  | {
      do: 'delete-previous'
      volume: Pick<PreviousVolume, 'incarnation' | 'claim' | 'uid'>
      backup: Pick<ObjectMeta, 'name' | 'uid'> | undefined
    }
  /** Writes the Secret by which clients connect as a role. */
  | { do: 'write-connection-secret'; secret: ConnectionSecret }
  /** Creates the Restore that the database requests by its annotation. */
  | { do: 'record-restore'; draft: Draft<'Restore'> }
  /** Removes the annotation `espalier.dev/force`. */
  | { do: 'remove-force' }
  /** Removes the finalizer, and keeps everything that belongs to the database. */
  | { do: 'orphan' }

export type Action = OwnerAction | OwnAction

const own: Record<OwnAction['do'], true> = {
  'delete-previous': true,
  'write-connection-secret': true,
  'record-restore': true,
  'remove-force': true,
  orphan: true,
}

export const isOwnAction = (action: Action): action is OwnAction => action.do in own
