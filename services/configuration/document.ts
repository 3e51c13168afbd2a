/** A parsed configuration file, whatever its syntax is: tables of values with their positions. */
import type { Problem, Source } from './errors.ts'

export type Path = readonly (string | number)[]
export type Table = Readonly<Record<string, unknown>>

export type Document = {
  readonly root: Table
  sourceOf(path: Path): Source
  readonly problems: readonly Problem[]
}

/** The path of a zod issue. */
export const pathOf = (keys: readonly PropertyKey[]): Path =>
  keys.map(key => (typeof key === 'number' ? key : String(key)))

/** Joins `databases[0].host` from its parts. */
export const nameOf = (path: Path): string =>
  path
    .map(part => (typeof part === 'number' ? `[${part}]` : `.${part}`))
    .join('')
    .replace(/^\./, '')

export const isTable = (value: unknown): value is Table =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
