/**
 * The hosts of HTTP routes, and the services of each host. Pure. It is built from the route ConfigMaps. It fails
 * closed: an unreadable route has no services, whatever its previous state.
 */
import type { ConfigMap } from '../../cluster/kinds.ts'
import { type HttpService, hostOfRoute, type RouteTarget, readAnyRoute, type ServiceType } from '../../routes/route.ts'
import { type CompiledRules, compileRules } from '../rules.ts'

export type CompiledService = CompiledRules & {
  service: ServiceType
  target: RouteTarget
  /** The bridge of an mcp service, if it has one. */
  bridge?: RouteTarget
  /** SHA-256 of the bearer token. */
  tokenDigest?: Uint8Array
  unavailable?: 'suspended' | 'starting'
}

export type CompiledHost = {
  host: string
  label: string
  databaseId: string
  services: ReadonlyMap<ServiceType, CompiledService>
}

/** A table is never changed in place. */
export type HostTable = {
  byName: ReadonlyMap<string, CompiledHost>
  /** Hosts by the id of the database or branch. */
  byId: ReadonlyMap<string, CompiledHost>
}

type HostTableChange = { table: HostTable; problems: string[] }

export const noHosts: HostTable = { byName: new Map(), byId: new Map() }

/** Builds the table of exactly these ConfigMaps. */
export function buildHosts(configMaps: readonly ConfigMap[]): HostTableChange {
  const next = copyOf(noHosts)
  const problems: string[] = []
  for (const configMap of configMaps) put(next, problems, configMap)
  return { table: next, problems }
}

/** Returns the table with one ConfigMap added or replaced. Ignores routes of other kinds. */
export function withHost(table: HostTable, configMap: ConfigMap): HostTableChange {
  if (hostOfRoute(configMap.metadata.name) === undefined) return { table, problems: [] }
  const next = copyOf(table)
  const problems: string[] = []
  put(next, problems, configMap)
  return { table: next, problems }
}

/** Returns the table without the route of this ConfigMap name. */
export function withoutHost(table: HostTable, name: string): HostTable {
  const host = hostOfRoute(name)
  if (host === undefined || !table.byName.has(host)) return table
  const next = copyOf(table)
  remove(next, host)
  return next
}

type Draft = { byName: Map<string, CompiledHost>; byId: Map<string, CompiledHost> }

const copyOf = ({ byName, byId }: HostTable): Draft => ({ byName: new Map(byName), byId: new Map(byId) })

function put(table: Draft, problems: string[], configMap: ConfigMap): void {
  const read = readAnyRoute(configMap)
  if (read.kind !== 'http') return
  const { host, route, problem } = read
  remove(table, host)
  if (route === undefined) {
    problems.push(`${configMap.metadata.name}: ${problem}`)
    table.byName.set(host, { host, label: host, databaseId: '', services: new Map() })
    return
  }
  const { label, databaseId } = route
  const services = new Map(route.services.map(each => [each.service, compiled(each)]))
  const entry: CompiledHost = { host, label, databaseId, services }
  table.byName.set(host, entry)
  table.byId.set(databaseId, entry)
}

function remove({ byName, byId }: Draft, host: string): void {
  const { databaseId = '' } = byName.get(host) ?? {}
  byName.delete(host)
  if (byId.get(databaseId)?.host !== host) return
  byId.delete(databaseId)
  // A database has two hosts while its region's domain changes.
  for (const other of byName.values()) if (other.databaseId === databaseId) byId.set(databaseId, other)
}

function compiled({ service, target, bridgePort, rules, tokenDigest, unavailable }: HttpService): CompiledService {
  return {
    service,
    target,
    ...compileRules(rules),
    ...(bridgePort === undefined ? {} : { bridge: { ...target, port: bridgePort } }),
    ...(tokenDigest === undefined ? {} : { tokenDigest: Buffer.from(tokenDigest, 'hex') }),
    ...(unavailable === undefined ? {} : { unavailable }),
  }
}
