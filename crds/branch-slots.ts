/**
 * Slots of branches that the API is about to create. The API writes them to the database object first. A slot blocks
 * the deletion of the database until the branch exists or the slot expires.
 */
import type { ManagedDatabase } from './managed-database.ts'

/**
 * Annotation of a database: the ids of branches that are being created, each with the time at which its slot was taken.
 * Format: `id@ms`, separated by spaces.
 */
export const slotsAnnotation = 'espalier.dev/branch-slots'

/**
 * The API creates a branch right after it has taken a slot. If the API's process ends in between, the slot expires
 * after this time.
 */
export const slotMs = 60_000

export type BranchSlot = { id: string; at: number }

/** The slots that have not expired. `now`: ms since the epoch. */
export function branchSlots({ metadata }: Pick<ManagedDatabase, 'metadata'>, now: number): BranchSlot[] {
  const texts = metadata.annotations?.[slotsAnnotation]?.split(' ') ?? []
  const slots = texts.map(text => {
    const [id = '', at = ''] = text.split('@')
    return { id, at: Number(at) }
  })
  return slots.filter(({ id, at }) => id !== '' && at > now - slotMs && at <= now + slotMs)
}
