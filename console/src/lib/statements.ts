/** Parses statements of pg_stat_statements, and formats their times. Pure. */

/** Matches quoted text, quoted names, comments and dollar quotes. A `$1` in them is not a parameter. */
const skipped = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$/g

/** Returns `$1`, `$2`, ... up to the highest parameter of the statement. */
export function parametersOf(text: string): string[] {
  const numbers = [...text.replaceAll(skipped, ' ').matchAll(/(?<![\w$])\$(\d{1,3})\b/g)].map(([, number]) =>
    Number(number),
  )
  return Array.from({ length: Math.max(0, ...numbers) }, (_, index) => `$${index + 1}`)
}

/**
 * Returns the mode for EXPLAIN. EXPLAIN of a statement that changes rows needs the privilege to change them, although
 * EXPLAIN does not run the statement.
 */
export const modeOf = (text: string): 'read' | 'write' =>
  /^[\s(]*(select|values|table)\b/i.test(text.replaceAll(skipped, ' ')) ? 'read' : 'write'

export function milliseconds(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}
