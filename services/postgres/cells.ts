/** Rows of a statement that this program wrote, read by the names of their columns. A column that is read and not there is a mistake of the program, and throws. */

/** A statement that this program wrote itself. */
export type OwnStatement = { readonly text: string; readonly values?: readonly (string | number | boolean | null)[] }

/** Each value as text; null: NULL. */
export type NamedRows = {
  readonly columns: readonly { readonly name: string }[]
  readonly rows: readonly (readonly (string | null)[])[]
}

export type Cells = {
  text(name: string): string
  /** undefined: NULL. */
  maybe(name: string): string | undefined
  number(name: string): number
  flag(name: string): boolean
}

export function cellsOf({ columns, rows }: NamedRows): readonly Cells[] {
  const places = new Map(columns.map(({ name }, place) => [name, place]))
  return rows.map(row => {
    const maybe = (name: string) => {
      const place = places.get(name)
      if (place === undefined) throw new Error(`the statement has no column ${name}`)
      return row[place] ?? undefined
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

/** Of a statement that gives one value. */
export function onlyCell({ rows }: NamedRows): string | undefined {
  return rows[0]?.[0] ?? undefined
}
