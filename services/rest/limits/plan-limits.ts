/** Checks a plan against its role's limits, before and after the plan runs. Pure. */
import { planTooCostly, tooManyRows } from '../errors/catalogue.ts'
import type { Plan, ReadNode } from '../plan/types.ts'
import type { RoleLimits } from './role-limits.ts'

/** Reads at most one row more than allowed: that row shows that the limit is exceeded. */
function bounded(read: ReadNode, rows: number): ReadNode {
  const { offset, limit } = read.range
  return { ...read, range: { offset, limit: limit === undefined ? rows + 1 : Math.min(limit, rows + 1) } }
}

export function limited(plan: Plan, role: string, { rows, cost }: RoleLimits): Plan {
  if (rows === undefined && cost === undefined) return plan
  const limits = { role, rows, cost }
  if (plan.kind === 'write' || rows === undefined) return { ...plan, limits }
  return { ...plan, limits, read: bounded(plan.read, rows) }
}

/** @throws RestError if there are more rows than the role may have */
export function checkRows({ limits }: Plan, rows: number): void {
  if (limits?.rows !== undefined && rows > limits.rows) throw tooManyRows(limits.role, limits.rows)
}

/**
 * `explained`: from EXPLAIN (FORMAT JSON).
 * @throws RestError if the planned cost exceeds the role's limit
 */
export function checkCost({ limits }: Plan, explained: string): void {
  // EXPLAIN's JSON has a fixed form: a list with one object that has a plan.
  const [{ Plan: found }] = JSON.parse(explained) as [{ Plan: { 'Total Cost': number } }]
  if (limits?.cost !== undefined && found['Total Cost'] > limits.cost) throw planTooCostly(limits.role, limits.cost)
}
