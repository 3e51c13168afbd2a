/**
 * The origins of a view's columns. Only the parse tree of the view's rule has them. Each entry of its outermost target
 * list names the relation and column that it copies (`resorigtbl`, `resorigcol`; 0 for an expression). Sources:
 * src/include/nodes/primnodes.h (TargetEntry), outfuncs.c (the text form: `{NODE :field value ...}`, names escaped with
 * a backslash).
 */

/** A view's attribute, and the attribute that it copies. */
export type ColumnOrigin = { column: number; relation: number; relationColumn: number }

const end = (tree: string, from: number): number => {
  const space = tree.indexOf(' ', from)
  return space === -1 ? tree.length : space
}
const field = (tree: string, name: string, from: number, until: number): number => {
  const at = tree.indexOf(`:${name} `, from)
  return at === -1 || at > until
    ? 0
    : Number.parseInt(tree.slice(at + name.length + 2, end(tree, at + name.length + 2)), 10)
}

/**
 * The origins of a view's columns, from the text of its rule's action. A tree with an unknown structure has no origins.
 */
export function columnOrigins(tree: string): ColumnOrigin[] {
  const origins: ColumnOrigin[] = []
  let depth = 0
  let inTargets = false
  let listDepth = 0
  let entry = 0
  for (let at = 0; at < tree.length; at++) {
    switch (tree.charCodeAt(at)) {
      case 0x5c: // A backslash: the next character is part of a name.
        at++
        break
      case 0x7b: // {
        depth++
        if (inTargets && depth === 2) entry = at
        break
      case 0x7d: // }
        if (inTargets && depth === 2) {
          // The entry's own fields follow its expression, so the last field with each name is the entry's own.
          const own = tree.lastIndexOf(':resno ', at)
          if (own > entry) {
            const relation = field(tree, 'resorigtbl', own, at)
            const isJunk = tree.slice(own, at).includes(':resjunk true')
            if (relation !== 0 && !isJunk) {
              origins.push({
                column: field(tree, 'resno', own, at),
                relation,
                relationColumn: field(tree, 'resorigcol', own, at),
              })
            }
          }
        }
        depth--
        break
      case 0x28: // (
        listDepth++
        break
      case 0x29: // )
        listDepth--
        if (inTargets && depth === 1 && listDepth === 1) return origins
        break
      case 0x3a: // :
        if (depth === 1 && tree.startsWith(':targetList ', at)) inTargets = true
        break
    }
  }
  return origins
}
