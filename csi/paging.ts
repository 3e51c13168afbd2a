/** Pages of a list sorted by id; the token is the first id of the next page. */
import { status } from '@grpc/grpc-js'
import { CsiError } from './errors.ts'

type Page<T> = { items: T[]; next: string }

/** @throws CsiError `INVALID_ARGUMENT`, or ABORTED for an invalid token */
export function pageOf<T extends { id: string }>(all: readonly T[], most: number, token: string): Page<T> {
  if (most < 0) throw new CsiError('INVALID_ARGUMENT', 'max_entries must not be negative')
  if (token !== '' && !/^(vol|snap)-[0-9a-f]{32}$/.test(token)) {
    // The specification requires ABORTED, so that the caller starts again.
    throw Object.assign(new Error('starting_token is not valid'), { code: status.ABORTED })
  }
  const rest = all.filter(({ id }) => id >= token)
  const items = most === 0 ? rest : rest.slice(0, most)
  return { items, next: rest[items.length]?.id ?? '' }
}
