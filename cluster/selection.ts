/** Which selections each kind supports; the same for every adapter. */
import { ClusterError } from './errors.ts'
import type { KindName } from './kinds.ts'
import type { ListOptions } from './port.ts'

/** @throws ClusterError `BadRequest` for a selection that this kind does not support */
export function requireSelectable(kind: KindName, { about, open }: Pick<ListOptions, 'about' | 'open'>): void {
  if (about !== undefined && kind !== 'Event')
    throw new ClusterError('BadRequest', `about: Invalid value: only for Events, not for ${kind}`)
  if (open && kind !== 'Task')
    throw new ClusterError('BadRequest', `open: Invalid value: only for Tasks, not for ${kind}`)
}
