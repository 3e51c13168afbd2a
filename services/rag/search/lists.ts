/** Merges ranked lists of several tables, and merges equal documents. */
import type { FoundDocument } from './types.ts'

export type Hit = {
  /** The row's key, unique among all rows of the pipeline. */
  readonly key: string
  /** The table's index in the pipeline. */
  readonly table: number
  readonly row: string
  readonly score: number
  /** The score that decides the order of rows from several tables. */
  readonly comparable: number
}

export const hitKey = (table: number, row: string): string => `${table} ${row}`

/**
 * Each list keeps its order. The next hit is the best of the lists' first remaining hits. If hits are equal, the hit of
 * the first table is next.
 */
export function mergeLists(lists: readonly (readonly Hit[])[]): readonly Hit[] {
  const [only, ...others] = lists
  if (only !== undefined && others.length === 0) return only
  const positions = lists.map(() => 0)
  const merged: Hit[] = []
  for (;;) {
    let best: { readonly hit: Hit; readonly list: number } | undefined
    for (const [list, hits] of lists.entries()) {
      const hit = hits[positions[list] ?? 0]
      if (hit !== undefined && (best === undefined || hit.comparable > best.hit.comparable)) best = { hit, list }
    }
    if (best === undefined) return merged
    merged.push(best.hit)
    positions[best.list] = (positions[best.list] ?? 0) + 1
  }
}

/**
 * Keeps the first of several documents with the same id in a table, and the first of several documents with the same
 * text.
 */
export class Distinct {
  readonly documents: FoundDocument[] = []
  readonly #ids = new Set<string>()
  readonly #tablesOfTexts = new Map<string, string>()

  add(document: FoundDocument): void {
    const id = JSON.stringify([document.table, document.id])
    const table = this.#tablesOfTexts.get(document.content)
    if (this.#ids.has(id) || (table !== undefined && table !== document.table)) return
    this.#ids.add(id)
    this.#tablesOfTexts.set(document.content, document.table)
    this.documents.push(document)
  }
}
