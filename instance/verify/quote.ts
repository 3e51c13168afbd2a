/** Quoting for SQL (Postgres manual, 4.1.1 and 4.1.2), of Espalier's own texts. */
export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`
export const quoteLiteral = (text: string): string => `'${text.replaceAll("'", "''")}'`
