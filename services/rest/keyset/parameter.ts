/** The query parameter of cursors, as `keyset-parameter` names it. Pure. */

/** Reserved parameter names. */
const taken = new Set(['select', 'order', 'limit', 'offset', 'columns', 'on_conflict', 'and', 'or', 'not'])

/** A name that needs no encoding, and is not reserved. */
export const isKeysetParameter = (name: string): boolean =>
  /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/.test(name) && !taken.has(name)

/** The query without the cursor, and the last cursor if there is one. */
export function takeCursor(
  query: string,
  parameter: string | undefined,
): { readonly query: string; readonly cursor: string | undefined } {
  if (parameter === undefined || !query.includes(parameter)) return { query, cursor: undefined }
  const parts = query.split('&')
  const isCursor = (part: string) => part === parameter || part.startsWith(`${parameter}=`)
  const cursor = parts.findLast(isCursor)?.slice(parameter.length + 1)
  return cursor === undefined ? { query, cursor } : { query: parts.filter(part => !isCursor(part)).join('&'), cursor }
}
