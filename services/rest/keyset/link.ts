/** What the answer of a page says of the next one: `Link: <?...>; rel="next"` (RFC 8288). Pure. */
import { keysetRefused } from '../errors/catalogue.ts'
import type { Keyset } from '../plan/types.ts'
import { encodeCursor } from './cursor.ts'

/** The query of a page, that of its request with its own cursor. */
export const pageQuery = ({ shape }: Keyset, parameter: string, cursor: string): string =>
  `${shape.canonicalQuery === '' ? '' : `${shape.canonicalQuery}&`}${encodeURIComponent(parameter)}=${cursor}`

/** `ends` are the keys of the page's last row, and of the one after it if there is one. */
export function nextLink(keyset: Keyset, parameter: string, ends: readonly string[]): [string, string][] {
  const [last, next] = ends
  if (last === undefined || next === undefined) return []
  // As of a view that shows a row of its table more than once.
  if (last === next) throw keysetRefused(`the primary key does not tell the rows of '${keyset.shape.relation}' apart`)
  // A list that Postgres has made of texts and nulls.
  const cursor = encodeCursor(keyset.shape, JSON.parse(last) as (string | null)[])
  // Of the query alone, so that it holds behind a proxy that serves this under another path.
  return [['Link', `<?${pageQuery(keyset, parameter, cursor)}>; rel="next"`]]
}
