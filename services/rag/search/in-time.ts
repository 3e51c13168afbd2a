/**
 * The time limit of a search. If the database needs longer, the search runs again with only the vector indexes, and the
 * result reports this.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import type { Search } from './search.ts'
import { statementTimeoutMs } from './session.ts'
import type { FoundDocument } from './types.ts'

type Run = (search: Search) => Promise<readonly FoundDocument[]>
type InTime = { readonly documents: readonly FoundDocument[]; readonly isIncomplete: boolean }

/** The SQLSTATE of a cancelled statement, also after a timeout. */
const cancelled = '57014'

/**
 * `exactMs`: the statement timeout of the first run.
 * @throws errors of `run`; a timeout only if no index can answer instead
 */
export async function searchInTime(
  search: Omit<Search, 'timeoutMs' | 'isIndexOnly' | 'onExact'>,
  exactMs: number,
  run: Run,
): Promise<InTime> {
  const isIndexed = search.tables.some(({ table }) => table.described.vector.indexes.length > 0)
  const hasOtherWay = search.vector !== undefined && isIndexed
  let isExact = false
  const onExact = () => {
    isExact = true
  }
  try {
    const timeoutMs = hasOtherWay ? Math.min(exactMs, statementTimeoutMs) : statementTimeoutMs
    return { documents: await run({ ...search, timeoutMs, isIndexOnly: false, onExact }), isIncomplete: false }
  } catch (error) {
    if (!hasOtherWay || !(error instanceof DatabaseError) || error.sqlState !== cancelled) throw error
  }
  // If no exact scan ran, another part of the search was slow. The second run gives that part more time.
  const isIndexOnly = isExact
  const documents = await run({ ...search, timeoutMs: statementTimeoutMs, isIndexOnly, onExact })
  return { documents, isIncomplete: isIndexOnly }
}
