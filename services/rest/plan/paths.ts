/** Sorts a query string's parameters: filters, order and ranges of one node, and those of its embeddings. */
import { notEmbedded } from '../errors/catalogue.ts'
import type { At, Filter, LogicTree, OrderTerm, ParsedQuery, SelectItem, SelectRelation } from '../parse/types.ts'

/** The parameters of one node and of the nodes below it. */
export type Placed = {
  readonly filters: readonly Filter[]
  readonly logic: readonly LogicTree[]
  readonly order: readonly (readonly OrderTerm[])[]
  readonly limits: readonly (number | undefined)[]
  readonly offsets: readonly (number | undefined)[]
  /** The embeddings in PostgREST's resolution order. A path moves its embedding to the front. */
  readonly embeddings: readonly SelectRelation[]
  /** Whether a path names this embedding by its relation, although it has an alias. */
  readonly isCalledByRelation: boolean
  below(child: SelectRelation): Placed
}

export const here = <T>(list: readonly At<T>[]): T[] =>
  list.flatMap(({ path, value }) => (path.length === 0 ? [value] : []))

export const childName = ({ alias, name }: SelectRelation) => alias ?? name

class Node implements Placed {
  readonly filters: Filter[] = []
  readonly logic: LogicTree[] = []
  readonly order: (readonly OrderTerm[])[] = []
  readonly limits: (number | undefined)[] = []
  readonly offsets: (number | undefined)[] = []
  embeddings: readonly SelectRelation[]
  isCalledByRelation = false
  readonly #below = new Map<SelectRelation, Node>()

  constructor(select: readonly SelectItem[]) {
    this.embeddings = select.filter(item => item.kind === 'relation')
  }

  below(child: SelectRelation): Node {
    const known = this.#below.get(child)
    if (known !== undefined) return known
    const node = new Node(child.select)
    this.#below.set(child, node)
    return node
  }

  /** The targets of a path. There are several only if embeddings share a key of the response. */
  at(path: readonly string[], aliasesOnly: boolean): Node[] {
    const [first, ...rest] = path
    if (first === undefined) return [this]
    const named = this.embeddings.filter(child => childName(child) === first)
    // An alias takes precedence over a relation's name. Among relations with that name, the first is selected.
    const byRelation = named.length > 0 ? undefined : this.embeddings.find(({ name }) => name === first)
    if (byRelation !== undefined && aliasesOnly) throw notEmbedded(first, childName(byRelation))
    const meant = byRelation === undefined ? named : [byRelation]
    const [front] = meant
    if (front === undefined) throw notEmbedded(first)
    if (byRelation !== undefined) this.below(byRelation).isCalledByRelation = true
    if (front !== this.embeddings[0]) this.embeddings = [front, ...this.embeddings.filter(one => one !== front)]
    return meant.flatMap(child => this.below(child).at(rest, aliasesOnly))
  }
}

/**
 * Resolves every path of a query string. @throws RST108 if a path has no target. Resolves paths in PostgREST's order:
 * it reports the same of several errors, and selects the same of several embeddings. `aliasesOnly`: a path must name an
 * embedding by its alias if there is one.
 */
export function resolvePaths(query: ParsedQuery, aliasesOnly: boolean): Placed {
  const root = new Node(query.select)
  const each = <T>(list: readonly At<T>[], put: (node: Node, value: T) => void) => {
    for (const { path, value } of list) for (const found of root.at(path, aliasesOnly)) put(found, value)
  }
  each(query.filters.toReversed(), ({ filters }, value) => filters.unshift(value))
  each(query.order.toReversed(), ({ order }, value) => order.unshift(value))
  each(query.limits, ({ limits }, value) => limits.push(value))
  each(query.offsets, ({ offsets }, value) => offsets.push(value))
  each(query.logic.toReversed(), ({ logic }, value) => logic.unshift(value))
  return root
}
