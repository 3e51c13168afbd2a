/** Pages of a list in the order of ids; the token is the id that comes first on the next page. */
// @ts-nocheck

import { status } from '@grpc/grpc-js'
import { CsiError } from './errors.ts'

type Page<T> = { items: T[]; next: string }

/** @throws CsiError `INVALID_ARGUMENT`, or an ABORTED of its kind for a token that is none */
export function pageOf<T extends { id: string }>(all: readonly T[], most: number, token: string): Page<T> {
  if (most < 0) throw new CsiError('INVALID_ARGUMENT', 'max_entries must not be negative')
  if (token !== '' && !/^(vol|snap)-[0-9a-f]{32}$/.test(token)) {
    // The specification asks for ABORTED: the caller begins anew.
    throw Object.assign(new Error('starting_token is none of ours'), { code: status.ABORTED })
  }
  const rest = all.filter(({ id }) => id >= token)
  const items = most === 0 ? rest : rest.slice(0, most)
  return { items, next: rest[items.length]?.id ?? '' }
}
