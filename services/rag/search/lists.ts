/** Ranked lists of several tables as one, and documents that are the same. Pure. */
import type { FoundDocument } from './types.ts'

export type Hit = {
  /** Which no other row of the pipeline has. */
  readonly key: string
  /** Place of the table in the pipeline. */
  readonly table: number
  readonly row: string
  readonly score: number
  /** By which lists of several tables are merged. */
  readonly comparable: number
}

export const hitKey = (table: number, row: string): string => `${table} ${row}`

/** Each list stays in its order; of their heads, the best comes next, and of equals that of the first table. */
export function mergeLists(lists: readonly (readonly Hit[])[]): readonly Hit[] {
  const [only, ...others] = lists
  if (only !== undefined && others.length === 0) return only
  const places = lists.map(() => 0)
  const merged: Hit[] = []
  for (;;) {
    let best: { readonly hit: Hit; readonly list: number } | undefined
    for (const [list, hits] of lists.entries()) {
      const hit = hits[places[list] ?? 0]
      if (hit !== undefined && (best === undefined || hit.comparable > best.hit.comparable)) best = { hit, list }
    }
    if (best === undefined) return merged
    merged.push(best.hit)
    places[best.list] = (places[best.list] ?? 0) + 1
  }
}

/** Keeps the first of documents of one id in a table, and of one text in several tables. */
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
