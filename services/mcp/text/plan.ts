/** Findings in a plan of Postgres, as text or JSON: few lines, each with advice. */

type PlanNode = {
  readonly type: string
  readonly relation: string | undefined
  readonly plannedRows: number
  /** The total of all loops; undefined if Postgres did not run the plan. */
  readonly actualRows: number | undefined
  readonly loops: number
  readonly removedRows: number
  readonly filter: string | undefined
  readonly isOnDisk: boolean
  readonly batches: number
}

/**
 * The text after a node's label. The code reads the label without a pattern, because a literal can make a line
 * megabytes long.
 */
const nodeFigures =
  / \(cost=\d+\.\d+\.\.\d+\.\d+ rows=(\d+) width=\d+\)(?: \(actual (?:time=\d+\.\d+\.\.\d+\.\d+ )?rows=(\d+(?:\.\d+)?) loops=(\d+)\))?/

function nodesOfText(text: string): PlanNode[] {
  const nodes: PlanNode[] = []
  for (const line of text.split('\n')) {
    const found = nodeFigures.exec(line)
    const last = nodes.at(-1)
    if (found !== null) {
      const [, planned, rows, loops] = found
      const label = line.slice(0, found.index).trim().replace(/^-> +/, '')
      nodes.push({
        type: label.split(/ (?:using|on) /, 1)[0] ?? '',
        relation: / on (\S+)/.exec(label)?.[1],
        plannedRows: Number(planned),
        actualRows: rows === undefined ? undefined : Number(rows) * Number(loops),
        loops: Number(loops ?? 1),
        removedRows: 0,
        filter: undefined,
        isOnDisk: false,
        batches: 1,
      })
    } else if (last !== undefined) nodes.splice(-1, 1, withProperty(last, line.trim()))
  }
  return nodes
}

function withProperty(node: PlanNode, line: string): PlanNode {
  const removed = /^Rows Removed by Filter: (\d+)/.exec(line)
  if (removed !== null) return { ...node, removedRows: Number(removed[1]) * node.loops }
  if (line.startsWith('Filter: ')) return { ...node, filter: line.slice(8) }
  if (/^Sort Method: external/.test(line)) return { ...node, isOnDisk: true }
  const batches = /\bBatches: (\d+)/.exec(line)
  return batches === null ? node : { ...node, batches: Number(batches[1]) }
}

type Fields = { readonly [field: string]: unknown }

const numberOf = (value: unknown, otherwise = 0): number => (typeof value === 'number' ? value : otherwise)
const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

function nodesOfJson(plan: Fields): PlanNode[] {
  const actual = plan['Actual Rows']
  const loops = numberOf(plan['Actual Loops'], 1)
  const children = Array.isArray(plan.Plans) ? plan.Plans : []
  return [
    {
      type: textOf(plan['Node Type']) ?? '',
      relation: textOf(plan['Relation Name']),
      plannedRows: numberOf(plan['Plan Rows']),
      actualRows: typeof actual === 'number' ? actual * loops : undefined,
      loops,
      removedRows: numberOf(plan['Rows Removed by Filter']) * loops,
      filter: textOf(plan.Filter),
      isOnDisk: textOf(plan['Sort Method'])?.startsWith('external') === true,
      batches: Math.max(numberOf(plan['Hash Batches'], 1), numberOf(plan['HashAgg Batches'], 1)),
    },
    ...children.flatMap((child: unknown) =>
      typeof child === 'object' && child !== null ? nodesOfJson({ ...child }) : [],
    ),
  ]
}

const manyRows = 10_000
const slowMs = 1_000

function findingsOf(node: PlanNode): string[] {
  const { type, relation, plannedRows, actualRows, removedRows, filter, isOnDisk, batches } = node
  const read = actualRows === undefined ? plannedRows : actualRows + removedRows
  const off = actualRows === undefined ? 1 : Math.max(actualRows, 1) / Math.max(plannedRows, 1)
  const findings: string[] = []
  if (/Seq Scan$/.test(type) && read >= manyRows) {
    const isSelective = actualRows !== undefined && removedRows > actualRows
    findings.push(
      `${type} on ${relation ?? 'a table'} reads ${Math.round(read)} rows${isSelective ? ` to keep ${Math.round(actualRows)}` : ''}${filter === undefined ? '' : ': an index for the columns of its filter may help'}.`,
    )
  }
  if (isOnDisk)
    findings.push('A sort went to disk: select fewer rows or columns, add an index in this order, or raise work_mem.')
  if (batches > 1) findings.push(`${type} needed ${batches} batches, for work_mem was too small for it.`)
  if ((off >= 10 || off <= 0.1) && Math.max(actualRows ?? 0, plannedRows) >= 1_000) {
    findings.push(
      `${type}${relation === undefined ? '' : ` on ${relation}`} was planned for ${plannedRows} rows and had ${Math.round(actualRows ?? 0)}: ANALYZE the tables, or add extended statistics.`,
    )
  }
  return findings
}

const maximumFindings = 8

function nodesAndTime(text: string, format: 'text' | 'json'): [readonly PlanNode[], number] {
  if (format === 'text') {
    return [nodesOfText(text), Number(/^Execution Time: ([\d.]+) ms/m.exec(text)?.[1] ?? 0)]
  }
  const explained: unknown = JSON.parse(text)
  const [one] = Array.isArray(explained) ? explained : []
  // Postgres defines the form of EXPLAIN's JSON
  const { Plan: plan = {}, 'Execution Time': time } = one as { Plan?: Fields; 'Execution Time'?: number }
  return [nodesOfJson(plan), time ?? 0]
}

export function planFindings(text: string, format: 'text' | 'json'): readonly string[] {
  const [nodes, time] = nodesAndTime(text, format)
  const slow = time > slowMs ? [`It took ${(time / 1_000).toFixed(1)} s.`] : []
  return [...new Set([...slow, ...nodes.flatMap(findingsOf)])].slice(0, maximumFindings)
}
