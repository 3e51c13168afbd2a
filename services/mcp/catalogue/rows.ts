/** Rows of our own statements by the names of their columns. A column that is asked for and not there is our mistake, and throws. */
import type { Rows } from '../database/access.ts'

export type Cells = {
  text(name: string): string
  /** undefined: NULL. */
  maybe(name: string): string | undefined
  number(name: string): number
  flag(name: string): boolean
}

export function cellsOf({ columns, rows }: Rows): readonly Cells[] {
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
export function onlyCell({ rows }: Rows): string | undefined {
  return rows[0]?.[0] ?? undefined
}
