/**
 * The route table: the target of each port, and its allowlist. Pure. It is built from the route ConfigMaps.
 *
 * It fails closed: an unreadable route admits no client, whatever its previous state.
 */

import type { ConfigMap } from '../cluster/kinds.ts'
import { portOfRoute, type RouteTarget, readAnyRoute } from '../routes/route.ts'
import { type CompiledRules, compileRules, isAdmitted } from './rules.ts'

export type CompiledRoute = {
  label: string
  /** Absent if the route could not be read. */
  target?: RouteTarget
} & CompiledRules

/** Routes by port. A table is never changed in place. */
export type RouteTable = ReadonlyMap<number, CompiledRoute>

export type ConnectionDecision =
  | { kind: 'allow'; label: string; target: RouteTarget }
  | { kind: 'deny'; label: string }
  /** No route has this port. */
  | { kind: 'unknown' }

/** A table, and the errors of its ConfigMaps, as log messages. */
type TableChange = { table: RouteTable; problems: string[] }

/** Converts Node's text of a peer's address to the form of the rules: an IPv4 address mapped into IPv6 becomes IPv4. */
export function normaliseAddress(address: string): string {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address)
  return mapped?.[1] ?? address
}

/**
 * Decides on a connection from a normalised address. All addresses except IPv4 are denied, because ingress is IPv4
 * only.
 */
export function decideConnection(table: RouteTable, port: number, address: string): ConnectionDecision {
  const found = table.get(port)
  if (found === undefined) return { kind: 'unknown' }
  const { label, target } = found
  return target !== undefined && isAdmitted(found, address) ? { kind: 'allow', label, target } : { kind: 'deny', label }
}

/** Builds the table of exactly these ConfigMaps. */
export function buildTable(configMaps: readonly ConfigMap[]): TableChange {
  const table = new Map<number, CompiledRoute>()
  const problems: string[] = []
  for (const configMap of configMaps) addTo(table, problems, configMap)
  return { table, problems }
}

/** Returns the table with one ConfigMap added or replaced. */
export function withRoute(table: RouteTable, configMap: ConfigMap): TableChange {
  const next = new Map(table)
  const problems: string[] = []
  addTo(next, problems, configMap)
  return { table: next, problems }
}

/** Returns the table without the route of this ConfigMap name. */
export function withoutRoute(table: RouteTable, name: string): RouteTable {
  const next = new Map(table)
  const port = portOfRoute(name)
  if (port !== undefined) next.delete(port)
  return next
}

/**
 * Routes by host name are in another table (http/table.ts). Unknown kinds belong to a later version, and are not
 * errors.
 */
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
