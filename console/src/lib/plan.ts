/** Converts the plan of EXPLAIN (FORMAT JSON) to the lines of a tree. Pure. */
export type PlanLine = {
  key: string
  depth: number
  title: string
  rows: number
  cost: number
  /** The rows and the time of all loops. Undefined without ANALYZE. */
  actual: { rows: number; ms: number } | undefined
  /** The node's share of the total time, without its children. Without ANALYZE: the share of the total cost. */
  share: number
  details: string[]
}

type Node = Record<string, unknown> & { Plans?: Node[] }

const detailKeys = ['Index Cond', 'Filter', 'Hash Cond', 'Merge Cond', 'Join Filter', 'Recheck Cond']
const numberOf = (value: unknown): number => (typeof value === 'number' ? value : 0)

function titleOf(node: Node): string {
  const relation = node['Relation Name'] ?? node['CTE Name'] ?? node['Function Name']
  const index = node['Index Name']
  return [
    String(node['Node Type'] ?? '?'),
    ...(index === undefined ? [] : [`using ${index}`]),
    ...(relation === undefined ? [] : [`on ${relation}`]),
  ].join(' ')
}

const isAnalyzed = (node: Node): boolean => typeof node['Actual Total Time'] === 'number'
const weightOf = (node: Node): number =>
  isAnalyzed(node)
    ? numberOf(node['Actual Total Time']) * Math.max(1, numberOf(node['Actual Loops']))
    : numberOf(node['Total Cost'])

function detailsOf(node: Node): string[] {
  const conditions = detailKeys.flatMap(key => (typeof node[key] === 'string' ? [`${key}: ${node[key]}`] : []))
  const keys = Array.isArray(node['Sort Key']) ? [`Sort Key: ${node['Sort Key'].join(', ')}`] : []
  const removed = numberOf(node['Rows Removed by Filter'])
  return [...conditions, ...keys, ...(removed > 0 ? [`Rows Removed by Filter: ${removed}`] : [])]
}

/** Returns the lines of a plan. Returns undefined if the text is not a plan. */
export function planOf(text: string): PlanLine[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  const root: unknown = Array.isArray(value) ? (value[0] as Node | undefined)?.Plan : undefined
  if (typeof root !== 'object' || root === null) return undefined
  const total = Math.max(weightOf(root as Node), Number.MIN_VALUE)
  const lines: PlanLine[] = []
  const add = (node: Node, depth: number): void => {
    const children = Array.isArray(node.Plans) ? node.Plans : []
    const own = Math.max(0, weightOf(node) - children.reduce((sum, child) => sum + weightOf(child), 0))
    const loops = Math.max(1, numberOf(node['Actual Loops']))
    lines.push({
      ...{ key: String(lines.length), depth, title: titleOf(node), rows: numberOf(node['Plan Rows']) },
      cost: numberOf(node['Total Cost']),
      actual: isAnalyzed(node)
        ? { rows: numberOf(node['Actual Rows']) * loops, ms: numberOf(node['Actual Total Time']) * loops }
        : undefined,
      share: Math.min(1, own / total),
      details: detailsOf(node),
    })
    for (const child of children) add(child, depth + 1)
  }
  add(root as Node, 0)
  return lines
}
