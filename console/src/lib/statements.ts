/** Statements of pg_stat_statements: their parameters, and times as users read them. Pure. */

/** Quoted texts, quoted names, comments and dollar quotes, in which `$1` is no parameter. */
const skipped = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$/g

/** `$1`, `$2`, ... up to the highest that the statement has. */
export function parametersOf(text: string): string[] {
  const numbers = [...text.replaceAll(skipped, ' ').matchAll(/(?<![\w$])\$(\d{1,3})\b/g)].map(([, number]) =>
    Number(number),
  )
  return Array.from({ length: Math.max(0, ...numbers) }, (_, index) => `$${index + 1}`)
}

/** The plan of a statement that changes rows is made as a role that can change them. It is not run. */
export const modeOf = (text: string): 'read' | 'write' =>
  /^[\s(]*(select|values|table)\b/i.test(text.replaceAll(skipped, ' ')) ? 'read' : 'write'

export function milliseconds(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}
