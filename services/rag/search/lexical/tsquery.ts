/** Writes lexemes as the text of a `tsquery` (manual section 8.11.2). */

const quoted = (lexeme: string): string => `'${lexeme.replace(/['\\]/g, '$&$&')}'`

/** Lexemes that must all match. */
export type Clause = readonly string[]

export const anyOf = (lexemes: readonly string[]): string => lexemes.map(quoted).join('|')

export const allOf = (lexemes: readonly string[]): string => lexemes.map(quoted).join('&')

/**
 * Matches rows that match at least one clause. Combines pairs with the same first lexeme, because Postgres evaluates
 * the complete query for each posting that it reads.
 */
export function anyClause(clauses: readonly Clause[]): string {
  const partners = new Map<string, string[]>()
  const parts: string[] = []
  for (const clause of clauses) {
    const [first, second, ...more] = clause
    if (first === undefined || second === undefined || more.length > 0) {
      parts.push(`(${allOf(clause)})`)
      continue
    }
    const known = partners.get(first)
    if (known === undefined) partners.set(first, [second])
    else known.push(second)
  }
  for (const [first, others] of partners) parts.push(`(${quoted(first)}&(${anyOf(others)}))`)
  return parts.join('|')
}
