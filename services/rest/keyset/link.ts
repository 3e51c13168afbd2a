/** The link to the next page: `Link: <?...>; rel="next"` (RFC 8288). Pure. */
import { keysetRefused } from '../errors/catalogue.ts'
import type { Keyset } from '../plan/types.ts'
import { encodeCursor } from './cursor.ts'

/** A page's query: its request's query with another cursor. */
export const pageQuery = ({ shape }: Keyset, parameter: string, cursor: string): string =>
  `${shape.canonicalQuery === '' ? '' : `${shape.canonicalQuery}&`}${encodeURIComponent(parameter)}=${cursor}`

/** `ends`: the keys of the page's last row, and the keys of the next row if there is one. */
export function nextLink(keyset: Keyset, parameter: string, ends: readonly string[]): [string, string][] {
  const [last, next] = ends
  if (last === undefined || next === undefined) return []
  // Happens for example in a view that shows a row of its table more than once.
  if (last === next) throw keysetRefused(`the primary key is not unique in '${keyset.shape.relation}'`)
  // Postgres built this list from texts and nulls.
  const cursor = encodeCursor(keyset.shape, JSON.parse(last) as (string | null)[])
  // The link has only the query, so that it is valid behind a proxy with another path.
  return [['Link', `<?${pageQuery(keyset, parameter, cursor)}>; rel="next"`]]
}
