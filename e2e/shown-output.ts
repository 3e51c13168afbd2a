/** A pattern for the output that a page shows. Ids, ports and `...` match any text. */
export function patternOf(shown: string): RegExp {
  const varying = /(\.\.\.|019c[0-9a-f-]+|shop-[0-9a-f-]{8,}|port \d+)/
  const parts = shown
    .trimEnd()
    .split(varying)
    .map((part, index) => (index % 2 === 1 ? '[\\s\\S]*?' : part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')))
  return new RegExp(`^${parts.join('')}\\s*$`)
}
