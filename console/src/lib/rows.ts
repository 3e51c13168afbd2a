/** Builds the rows of the overview: all databases, and the branches of expanded databases. Pure. */
import type { Schemas } from '../api/client.ts'
import { marksOf } from './branches.ts'
import { type Line, treeOf } from './tree.ts'

type Database = Schemas['ManagedDatabase']
type Branch = Schemas['Branch']

export type Row =
  | { kind: 'database'; key: string; database: Database }
  /** `mark` is the short id of the branch. It is undefined if the title of the branch is unique. */
  | { kind: 'branch'; key: string; database: Database; line: Line<Branch>; mark: string | undefined }
  /** Explains why an expanded database has no rows of branches. */
  | { kind: 'note'; key: string; database: Database; note: 'none' | 'loading' | 'failed' }

type Branches = Branch[] | 'loading' | 'failed'

/**
 * Returns the rows.
 * @param branches the branches of the expanded databases, by the id of the database
 */
export function rowsOf(databases: readonly Database[], branches: ReadonlyMap<string, Branches>): Row[] {
  return databases.flatMap((database): Row[] => {
    const own: Row = { kind: 'database', key: database.id, database }
    const found = branches.get(database.id)
    if (found === undefined) return [own]
    const note = (text: 'none' | 'loading' | 'failed'): Row[] => [
      own,
      { kind: 'note', key: `${database.id} note`, database, note: text },
    ]
    if (typeof found === 'string') return note(found)
    if (found.length === 0) return note('none')
    const markOf = marksOf(found)
    const rows = treeOf(found).map((line): Row => {
      return { kind: 'branch', key: line.node.id, database, line, mark: markOf(line.node) }
    })
    return [own, ...rows]
  })
}

/** Returns the databases whose shown texts together contain every typed word. */
export function filtered(databases: readonly Database[], typed: string): readonly Database[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return databases
  return databases.filter(({ name, display_name: label, region, size, status, id }) => {
    const text = [name, label ?? '', region, size, status, id].join(' ').toLowerCase()
    return words.every(word => text.includes(word))
  })
}
