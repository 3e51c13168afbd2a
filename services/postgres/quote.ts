/** Names in statements. */

/** Returns the name as SQL accepts it, whatever it consists of. @throws Error if it holds NUL, which ends a text in the protocol */
export function quoteIdentifier(name: string): string {
  if (name.includes('\0')) throw new Error('an identifier cannot hold NUL')
  return `"${name.replaceAll('"', '""')}"`
}

/** Returns the name with its schema. @throws Error as `quoteIdentifier` does */
export const qualified = ({ schema, name }: { readonly schema: string; readonly name: string }): string =>
  `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`
