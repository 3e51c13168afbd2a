/** Quotes names and literals for SQL (Postgres manual, 4.1.1 and 4.1.2). All of them are Espalier's own texts. */
export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`
export const quoteLiteral = (text: string): string => `'${text.replaceAll("'", "''")}'`
