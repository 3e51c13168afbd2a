/**
 * The slots of a database's branches. One that is to be made takes its slot by a write of its database, so that of two
 * requests that come at once, to whichever replicas, the second sees the first; and so that no database is deleted beside
 * a branch that is on its way. A live branch has a slot by itself: what stands on the database is only what is not seen yet.
 */
import type { Kinds } from '../../cluster/index.ts'
import { type BranchSlot, blocksDeletion, branchSlots, isLiveBranch, slotsAnnotation } from '../../crds/index.ts'
import { idOf } from '../caches.ts'
import type { Writer } from '../writer.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

/**
 * The live branches of a database, and the slots of those that are still to be seen. `blocking`: branches for which its deletion is
 * refused, failed ones included.
 */
type Occupancy = { branches: Kinds['Branch'][]; blocking: Kinds['Branch'][]; slots: BranchSlot[] }

/** By the cluster's own word. `database`: as it is now. */
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

/** As the operator counts them: one that names the database alone has no id yet. */
const isNamed = ({ spec }: Kinds['Branch'], { metadata }: ManagedDatabase): boolean =>
  spec.databaseName === metadata.name

/** How many branches its deletion is refused for. */
export async function countBlocking(writer: Writer, database: ManagedDatabase): Promise<number> {
  const { blocking, slots } = await occupancyOf(writer, database)
  return blocking.length + slots.length
}

/** The database with a slot for this branch, and without those that are needed no more. */
export function withSlot(database: ManagedDatabase, { slots }: Occupancy, id: string, now: number): ManagedDatabase {
  const kept = [...slots.filter(slot => slot.id !== id), { id, at: now }]
  const text = kept.map(slot => `${slot.id}@${slot.at}`).join(' ')
  const annotations = { ...database.metadata.annotations, [slotsAnnotation]: text }
  return { ...database, metadata: { ...database.metadata, annotations } }
}
