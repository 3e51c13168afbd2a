/** What a query string says, sorted by where it belongs: filters, order and ranges of one node, and of those embedded in it. */
import { notEmbedded } from '../errors/catalogue.ts'
import type { At, Filter, LogicTree, OrderTerm, ParsedQuery, SelectItem, SelectRelation } from '../parse/types.ts'

/** What the query string says of one node, and of those below it. */
export type Placed = {
  readonly filters: readonly Filter[]
  readonly logic: readonly LogicTree[]
  readonly order: readonly (readonly OrderTerm[])[]
  readonly limits: readonly (number | undefined)[]
  readonly offsets: readonly (number | undefined)[]
  /** The embeddings in the order in which PostgREST resolves them: a path moves the one that it names to the front. */
  readonly turn: readonly SelectRelation[]
  /** Whether a path names this embedding by its relation, although it has an alias. */
  readonly isCalledByRelation: boolean
  below(child: SelectRelation): Placed
}

export const here = <T>(list: readonly At<T>[]): T[] =>
  list.flatMap(({ path, value }) => (path.length === 0 ? [value] : []))

export const childName = ({ alias, name }: SelectRelation) => alias ?? name

class Place implements Placed {
  readonly filters: Filter[] = []
  readonly logic: LogicTree[] = []
  readonly order: (readonly OrderTerm[])[] = []
  readonly limits: (number | undefined)[] = []
  readonly offsets: (number | undefined)[] = []
  turn: readonly SelectRelation[]
  isCalledByRelation = false
  readonly #below = new Map<SelectRelation, Place>()

  constructor(select: readonly SelectItem[]) {
    this.turn = select.filter(item => item.kind === 'relation')
  }

  below(child: SelectRelation): Place {
    const known = this.#below.get(child)
    if (known !== undefined) return known
    const place = new Place(child.select)
    this.#below.set(child, place)
    return place
  }

  /** Where a path leads: to more than one place only where embeddings share a key of the answer. */
  at(path: readonly string[], aliasesOnly: boolean): Place[] {
    const [first, ...rest] = path
    if (first === undefined) return [this]
    const named = this.turn.filter(child => childName(child) === first)
    // An alias counts before the name of a relation, of which the first one is meant.
    const byRelation = named.length > 0 ? undefined : this.turn.find(({ name }) => name === first)
    if (byRelation !== undefined && aliasesOnly) throw notEmbedded(first, childName(byRelation))
    const meant = byRelation === undefined ? named : [byRelation]
    const [front] = meant
    if (front === undefined) throw notEmbedded(first)
    if (byRelation !== undefined) this.below(byRelation).isCalledByRelation = true
    if (front !== this.turn[0]) this.turn = [front, ...this.turn.filter(one => one !== front)]
    return meant.flatMap(child => this.below(child).at(rest, aliasesOnly))
  }
}

/**
 * Resolves every path of a query string; RST108 for one that leads to nothing. Paths are resolved in PostgREST's order, so that of several faults the same one
 * is reported, and of several embeddings of one relation the same one is meant. `aliasesOnly`: an embedding with an alias has no other name.
 */
export function place(query: ParsedQuery, aliasesOnly: boolean): Placed {
  const root = new Place(query.select)
  const each = <T>(list: readonly At<T>[], put: (place: Place, value: T) => void) => {
    for (const { path, value } of list) for (const found of root.at(path, aliasesOnly)) put(found, value)
  }
  each(query.filters.toReversed(), ({ filters }, value) => filters.unshift(value))
  each(query.order.toReversed(), ({ order }, value) => order.unshift(value))
  each(query.limits, ({ limits }, value) => limits.push(value))
  each(query.offsets, ({ offsets }, value) => offsets.push(value))
  each(query.logic.toReversed(), ({ logic }, value) => logic.unshift(value))
  return root
}
