/**
 * The route table: which port leads where, and whom its allowlist admits. Pure; built from the route ConfigMaps.
 *
 * It fails closed: a route that cannot be read admits nobody, whatever it said before. Rules become sorted address
 * ranges that do not touch, so that a verdict is one binary search.
 */

import type { ConfigMap } from '../cluster/kinds.ts'
import { portOfRoute, type RouteTarget, readAnyRoute } from '../routes/route.ts'
import { maskCidr, parseAddress, parseCidr } from '../values/cidr.ts'

export type CompiledRoute = {
  label: string
  /** Absent where the route could not be read. */
  target?: RouteTarget
  /** The rules as masked CIDR blocks, each once. */
  rules: readonly string[]
  /** First and last address of each range, in turn, ascending. */
  ranges: Uint32Array
}

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
  const { label, target, ranges } = found
  const number = parseAddress(address)
  const admitted = number !== undefined && target !== undefined && isInside(ranges, number)
  return admitted ? { kind: 'allow', label, target } : { kind: 'deny', label }
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

/** Routes of other kinds than ports lead nowhere here, and are no problem: they are another gateway's, or a later version's. */
function addTo(table: Map<number, CompiledRoute>, problems: string[], configMap: ConfigMap): void {
  const { name } = configMap.metadata
  const read = readAnyRoute(configMap)
  if (read.kind !== 'http' && read.problem !== undefined) problems.push(`${name}: ${read.problem}`)
  if (read.kind !== 'port') return
  const { port, route } = read
  if (route === undefined) {
    table.set(port, { label: name, rules: [], ranges: new Uint32Array() })
  } else {
    const rules = [...new Set(route.rules.map(maskCidr).filter(rule => rule !== undefined))]
    table.set(port, { label: route.label, target: route.target, rules, ranges: rangesOf(rules) })
  }
}

function rangesOf(rules: readonly string[]): Uint32Array {
  const blocks = rules.map(parseCidr).filter(block => block !== undefined)
  const ranges = blocks.map(({ network, prefix }) => ({ first: network, last: network + 2 ** (32 - prefix) - 1 }))
  ranges.sort((left, right) => left.first - right.first)
  const merged: { first: number; last: number }[] = []
  for (const range of ranges) {
    const previous = merged.at(-1)
    if (previous && range.first <= previous.last + 1) previous.last = Math.max(previous.last, range.last)
    else merged.push({ ...range })
  }
  return Uint32Array.from(merged.flatMap(({ first, last }) => [first, last]))
}

function isInside(ranges: Uint32Array, address: number): boolean {
  let low = 0
  let high = ranges.length / 2
  while (low < high) {
    const middle = (low + high) >>> 1
    if (address < (ranges[middle * 2] ?? 0)) high = middle
    else if (address > (ranges[middle * 2 + 1] ?? 0)) low = middle + 1
    else return true
  }
  return false
}
