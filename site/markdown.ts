/** Markdown that the reference pages are made of. */

export const heading = (level: 1 | 2 | 3, text: string): string => `${'#'.repeat(level)} ${text}`

/** The text of one cell of a table: on one line. A bar would end the cell; angle brackets would begin HTML. */
export const cell = (text: string): string =>
  text
    .replace(/\s*\n\s*/g, ' ')
    .replaceAll('|', '\\|')
    .split(/(`[^`]*`)/)
    .map(part => (part.startsWith('`') ? part : part.replaceAll('<', '&lt;').replaceAll('{{', '{ {')))
    .join('')

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map(row => `| ${row.join(' | ')} |`).join('\n')
