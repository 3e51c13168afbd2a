/**
 * Reads the rows of this program's own statements by column name. Throws if a column is missing, because that is a bug.
 */

/** A statement of this program. */
export type OwnStatement = { readonly text: string; readonly values?: readonly (string | number | boolean | null)[] }

/** Each value as text; null: NULL. */
export type NamedRows = {
  readonly columns: readonly { readonly name: string }[]
  readonly rows: readonly (readonly (string | null)[])[]
}

export type Cells = {
  text(name: string): string
  /** Undefined: NULL. */
  maybe(name: string): string | undefined
  number(name: string): number
  flag(name: string): boolean
}

export function cellsOf({ columns, rows }: NamedRows): readonly Cells[] {
  const indexes = new Map(columns.map(({ name }, index) => [name, index]))
  return rows.map(row => {
    const maybe = (name: string) => {
      const index = indexes.get(name)
      if (index === undefined) throw new Error(`the statement has no column ${name}`)
      return row[index] ?? undefined
    }
    const text = (name: string) => {
      const value = maybe(name)
      if (value === undefined) throw new Error(`the column ${name} is NULL`)
      return value
    }
    return {
      text,
      maybe,
      number: name => Number(text(name)),
      flag: name => ['t', 'true'].includes(text(name)),
    }
  })
}

/** For a statement that returns one value. */
export function onlyCell({ rows }: NamedRows): string | undefined {
  return rows[0]?.[0] ?? undefined
}
