/** Quotes names in statements. */

/** Returns the quoted name. @throws Error if it contains NUL, which ends a string in the protocol */
export function quoteIdentifier(name: string): string {
  if (name.includes('\0')) throw new Error('an identifier cannot contain NUL')
  return `"${name.replaceAll('"', '""')}"`
}

/** Returns the name with its schema. @throws Error as `quoteIdentifier` does */
export const qualified = ({ schema, name }: { readonly schema: string; readonly name: string }): string =>
  `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`
