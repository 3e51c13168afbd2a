/**
 * Slots of branches that the API is about to create, as it notes them on their database before. Each holds a deletion of the database up until
 * the branch is there, or its time is over.
 */
import type { ManagedDatabase } from './managed-database.ts'

/** On a database: ids of branches that are being written, each with when its slot was taken, `id@ms`, by spaces. */
export const slotsAnnotation = 'espalier.dev/branch-slots'

/** A branch is written at once after its slot was taken; where a process died in between, it is free again after so long. */
export const slotMs = 60_000

export type BranchSlot = { id: string; at: number }

/** The slots that are not over. `now`: ms since the epoch. */
export function branchSlots({ metadata }: Pick<ManagedDatabase, 'metadata'>, now: number): BranchSlot[] {
  const texts = metadata.annotations?.[slotsAnnotation]?.split(' ') ?? []
  const slots = texts.map(text => {
    const [id = '', at = ''] = text.split('@')
    return { id, at: Number(at) }
  })
  return slots.filter(({ id, at }) => id !== '' && at > now - slotMs && at <= now + slotMs)
}
