/** Parses the fields of EXPLAIN (FORMAT JSON, VERBOSE) that index advice needs. */
import { z } from 'zod'

export type PlanNode = {
  readonly type: string
  readonly schema: string | undefined
  readonly relation: string | undefined
  readonly alias: string | undefined
  readonly indexName: string | undefined
  readonly rows: number
  readonly cost: number
  /** If true, `rows` is the estimate for one of several processes. */
  readonly isParallel: boolean
  readonly filter: string | undefined
  /** The condition of a join. */
  readonly condition: string | undefined
  readonly sortKeys: readonly string[]
  readonly children: readonly PlanNode[]
}

type Written = z.infer<typeof fields> & { readonly Plans?: readonly Written[] | undefined }

const fields = z.object({
  'Node Type': z.string(),
  Schema: z.string().optional(),
  'Relation Name': z.string().optional(),
  Alias: z.string().optional(),
  'Index Name': z.string().optional(),
  'Plan Rows': z.number(),
  'Total Cost': z.number(),
  'Parallel Aware': z.boolean().optional(),
  Filter: z.string().optional(),
  'Join Filter': z.string().optional(),
  'Hash Cond': z.string().optional(),
  'Merge Cond': z.string().optional(),
  'Sort Key': z.array(z.string()).optional(),
})
const written: z.ZodType<Written> = fields.extend({ Plans: z.lazy(() => z.array(written)).optional() })
const document = z.array(z.object({ Plan: written })).length(1)

const nodeOf = (node: Written): PlanNode => ({
  type: node['Node Type'],
  schema: node.Schema,
  relation: node['Relation Name'],
  alias: node.Alias,
  indexName: node['Index Name'],
  rows: node['Plan Rows'],
  cost: node['Total Cost'],
  isParallel: node['Parallel Aware'] ?? false,
  filter: node.Filter,
  condition: node['Join Filter'] ?? node['Hash Cond'] ?? node['Merge Cond'],
  sortKeys: node['Sort Key'] ?? [],
  children: (node.Plans ?? []).map(nodeOf),
})

/** @throws if the text is not a plan in JSON */
export function planOf(text: string): PlanNode {
  const [first] = document.parse(JSON.parse(text))
  if (first === undefined) throw new Error('the plan is empty')
  return nodeOf(first.Plan)
}

export function* nodesOf(plan: PlanNode): Generator<PlanNode> {
  yield plan
  for (const child of plan.children) yield* nodesOf(child)
}
