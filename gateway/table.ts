/**
 * The route table: which port leads where, and whom its allowlist admits. Pure; built from the route ConfigMaps.
 *
 * It fails closed: a route that cannot be read admits nobody, whatever it said before.
 */

import type { ConfigMap } from '../cluster/kinds.ts'
import { portOfRoute, type RouteTarget, readAnyRoute } from '../routes/route.ts'
import { type CompiledRules, compileRules, isAdmitted } from './rules.ts'

export type CompiledRoute = {
  label: string
  /** Absent where the route could not be read. */
  target?: RouteTarget
} & CompiledRules

/** Port to route. Never changed in place. */
export type RouteTable = ReadonlyMap<number, CompiledRoute>

export type Verdict =
  | { kind: 'allow'; label: string; target: RouteTarget }
  | { kind: 'deny'; label: string }
  /** No route claims the port. */
  | { kind: 'unknown' }

/** A table, and what was wrong with the ConfigMaps it was made from, in words for the log. */
type TableChange = { table: RouteTable; problems: string[] }

/** Node's text of a peer's address as it stands in rules: an IPv4 address mapped into IPv6 is IPv4. */
export function normaliseAddress(address: string): string {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address)
  return mapped?.[1] ?? address
}

/** What becomes of a connection from a normalised address. Anything but IPv4 is denied: ingress is IPv4 only. */
export function verdict(table: RouteTable, port: number, address: string): Verdict {
  const found = table.get(port)
  if (found === undefined) return { kind: 'unknown' }
  const { label, target } = found
  return target !== undefined && isAdmitted(found, address) ? { kind: 'allow', label, target } : { kind: 'deny', label }
}

/** The table that these ConfigMaps, and no others, make. */
export function buildTable(configMaps: readonly ConfigMap[]): TableChange {
  const table = new Map<number, CompiledRoute>()
  const problems: string[] = []
  for (const configMap of configMaps) addTo(table, problems, configMap)
  return { table, problems }
}

/** The table with one ConfigMap added, or put in the place of its former state. */
export function withRoute(table: RouteTable, configMap: ConfigMap): TableChange {
  const next = new Map(table)
  const problems: string[] = []
  addTo(next, problems, configMap)
  return { table: next, problems }
}

/** The table without the route of this ConfigMap name. */
export function withoutRoute(table: RouteTable, name: string): RouteTable {
  const next = new Map(table)
  const port = portOfRoute(name)
  if (port !== undefined) next.delete(port)
  return next
}

/** Routes by host name are another table's (http/table.ts). Those of kinds that nobody knows are a later version's, and no problem. */
function addTo(table: Map<number, CompiledRoute>, problems: string[], configMap: ConfigMap): void {
  const { name } = configMap.metadata
  const read = readAnyRoute(configMap)
  if (read.kind !== 'http' && read.problem !== undefined) problems.push(`${name}: ${read.problem}`)
  if (read.kind !== 'port') return
  const { port, route } = read
  if (route === undefined) {
    table.set(port, { label: name, ...compileRules([]) })
  } else {
    table.set(port, { label: route.label, target: route.target, ...compileRules(route.rules) })
  }
}
