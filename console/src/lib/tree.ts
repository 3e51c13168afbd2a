/** Converts branches to the lines of a tree. Pure. */
type Node = { id: string; parent_branch_id?: string | null; created_at: string }

export type Line<T> = { node: T; depth: number }

/** Returns parents before their children, and older siblings first. A branch is a root if `nodes` omits its parent. */
export function treeOf<T extends Node>(nodes: readonly T[]): Line<T>[] {
  const known = new Set(nodes.map(({ id }) => id))
  const byParent = Map.groupBy(nodes, ({ id, parent_branch_id: parent }) =>
    parent != null && parent !== id && known.has(parent) ? parent : undefined,
  )
  const lines: Line<T>[] = []
  const seen = new Set<string>()
  const add = (parent: string | undefined, depth: number): void => {
    const children = byParent.get(parent)?.toSorted((a, b) => (a.created_at < b.created_at ? -1 : 1)) ?? []
    for (const node of children) {
      if (seen.has(node.id)) continue
      seen.add(node.id)
      lines.push({ node, depth })
      add(node.id, depth + 1)
    }
  }
  add(undefined, 0)
  return lines
}
