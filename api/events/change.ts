/** The content of a change in an event stream: ids and status. */
import type { Kinds } from '../../cluster/index.ts'
import { branchPhase, visiblePhase } from '../../crds/index.ts'
import { type Caches, idOf } from '../caches.ts'
import { backupStatus } from '../render/others.ts'
import { databaseOf } from '../tasks/database.ts'
import { taskStatus } from '../tasks/render.ts'
import type { Change } from './schema.ts'

type ChangeOf<K extends keyof Kinds> = { type: 'set' | 'deleted'; object: Kinds[K] }

/** Returns undefined for an object without an id, because no client can know the object. */
function changeOf(
  kind: Change['kind'],
  object: Parameters<typeof idOf>[0],
  { databaseId, status }: { databaseId: string | undefined; status: string },
): Change | undefined {
  const id = idOf(object)
  if (id === undefined) return undefined
  return { kind, id, ...(databaseId === undefined ? {} : { database_id: databaseId }), status }
}

const statusOf = (type: 'set' | 'deleted', status: string): string => (type === 'deleted' ? 'deleted' : status)

export const databaseChange = ({ type, object }: ChangeOf<'ManagedDatabase'>): Change | undefined =>
  changeOf('database', object, { databaseId: idOf(object), status: statusOf(type, visiblePhase(object)) })

export const branchChange = ({ type, object }: ChangeOf<'Branch'>): Change | undefined =>
  changeOf('branch', object, { databaseId: object.spec.databaseId, status: statusOf(type, branchPhase(object)) })

export const backupChange = ({ type, object }: ChangeOf<'Backup'>): Change | undefined =>
  changeOf('backup', object, { databaseId: object.spec.databaseId, status: statusOf(type, backupStatus(object)) })

export const taskChange = (caches: Caches, { type, object }: ChangeOf<'Task'>): Change | undefined =>
  changeOf('task', object, { databaseId: databaseOf(caches, object), status: statusOf(type, taskStatus(object)) })
