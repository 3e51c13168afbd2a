/** Names in statements. */

/** Returns the name as SQL accepts it, whatever it consists of. @throws Error if it holds NUL, which ends a text in the protocol */
export function quoteIdentifier(name: string): string {
  if (name.includes('\0')) throw new Error('an identifier cannot hold NUL')
  return `"${name.replaceAll('"', '""')}"`
}
