/**
 * The time limit of a search: if the database needs longer, the search is repeated with only the vector indexes, and
 * the result reports it.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import type { Search } from './search.ts'
import { statementTimeoutMs } from './session.ts'
import type { FoundDocument } from './types.ts'

type Run = (search: Search) => Promise<readonly FoundDocument[]>
type InTime = { readonly documents: readonly FoundDocument[]; readonly isIncomplete: boolean }

/** SQLSTATE of a cancelled statement, by its timeout or otherwise. */
const cancelled = '57014'

/**
 * `exactMs`: timeout of a statement of the first run.
 * @throws errors of running; a timeout only if no index can answer instead
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
  // Without an exact scan something else was slow, and needs its time.
  const isIndexOnly = isExact
  const documents = await run({ ...search, timeoutMs: statementTimeoutMs, isIndexOnly, onExact })
  return { documents, isIncomplete: isIndexOnly }
}
