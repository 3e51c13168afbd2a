/**
 * The slots of a database's branches. A new branch reserves its slot by a write of its database. So of two concurrent
 * requests, on any replicas, the second detects the first, and no database is deleted while a branch is being created.
 * The database records only slots of branches that are not visible yet, because a live branch itself occupies a slot.
 */
import type { Kinds } from '../../cluster/index.ts'
import { type BranchSlot, blocksDeletion, branchSlots, isLiveBranch, slotsAnnotation } from '../../crds/index.ts'
import { idOf } from '../caches.ts'
import type { Writer } from '../writer.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/**
 * The live branches of a database, and the slots of branches that are not visible yet. `blocking`: branches that block
 * its deletion, including failed ones.
 */
type Occupancy = { branches: Kinds['Branch'][]; blocking: Kinds['Branch'][]; slots: BranchSlot[] }

/** Reads the cluster, not the cache. `database`: its current state. */
export async function occupancyOf({ context, account }: Writer, database: ManagedDatabase): Promise<Occupancy> {
  const { items } = await context.cluster.list('Branch', { namespace: account.namespace })
  const ofDatabase = items.filter(branch => branch.spec.databaseId === idOf(database))
  const seen = new Set(ofDatabase.map(idOf))
  return {
    branches: ofDatabase.filter(isLiveBranch),
    blocking: items.filter(branch => isNamed(branch, database) && blocksDeletion(branch)),
    slots: branchSlots(database, context.now()).filter(({ id }) => !seen.has(id)),
  }
}

/** Counts like the operator: a branch that names only the database has no database id yet. */
const isNamed = ({ spec }: Kinds['Branch'], { metadata }: ManagedDatabase): boolean =>
  spec.databaseName === metadata.name

/** The number of branches that block the database's deletion. */
export async function countBlocking(writer: Writer, database: ManagedDatabase): Promise<number> {
  const { blocking, slots } = await occupancyOf(writer, database)
  return blocking.length + slots.length
}

/** Returns the database with a slot for this branch, and without slots that are no longer needed. */
export function withSlot(database: ManagedDatabase, { slots }: Occupancy, id: string, now: number): ManagedDatabase {
  const remaining = [...slots.filter(slot => slot.id !== id), { id, at: now }]
  const text = remaining.map(slot => `${slot.id}@${slot.at}`).join(' ')
  const annotations = { ...database.metadata.annotations, [slotsAnnotation]: text }
  return { ...database, metadata: { ...database.metadata, annotations } }
}
