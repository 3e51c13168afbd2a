/**
 * The map entries of routes by host name, and the runtime commands that change HAProxy's maps to the desired entries.
 * Pure.
 *
 * A service has an entry in the map `services` for each owner (http-fields.ts). The entry contains everything that a
 * request needs: a network, the address to connect to, and the token's digest. The network is an IPv6 prefix for this
 * service: `fd01:<80-bit hash of host, database and service>`. Each rule of the service is an entry of the map
 * `callers`: `<network>:<source>`. So a rule of one database never admits a caller to another database, whichever entry
 * is written first. A change of the target changes one entry per owner.
 */
import { createHash } from 'node:crypto'
import type { RouteTarget } from '../../routes/route.ts'
import type { CompiledHost, CompiledService, HostTable } from '../http/table.ts'
import { hasSeparator, ownerFields, serviceFields } from './http-fields.ts'
import type { MapContent } from './maps.ts'
import type { Paths } from './paths.ts'

/** The map entries of a route. Unchanged routes keep the same object. */
type HttpEndpoint = { services: ReadonlyMap<string, string>; callers: ReadonlySet<string> }
/** Endpoints by host name. */
export type HttpEndpoints = ReadonlyMap<string, HttpEndpoint>

const inOrder = <Name extends string>(names: readonly Name[], fields: Record<Name, string | number | undefined>) =>
  names.map(name => String(fields[name] ?? '')).join('|')

/** The first 96 bits of a service's entries in `callers`. The last 32 bits of an entry are the caller's address. */
function networkOf({ host, databaseId }: CompiledHost, service: string): string {
  const digest = createHash('sha256').update(`${host} ${databaseId} ${service}`).digest('hex')
  return ['fd01', ...[0, 4, 8, 12, 16].map(at => digest.slice(at, at + 4))].join(':')
}

function callerKey(network: string, cidr: string): string {
  const [address, prefix] = cidr.split('/')
  return `${network}:${address}/${96 + Number(prefix)}`
}

type AddressOf = (target: RouteTarget) => string | undefined

function serviceValue(network: string, to: string | undefined, service: CompiledService): string {
  const [address, port] = to?.split(':') ?? []
  const { bridge, unavailable, tokenDigest } = service
  const digest = tokenDigest && Buffer.from(tokenDigest).toString('hex')
  return inOrder(serviceFields, { network, address, port, bridgePort: bridge?.port, unavailable, tokenDigest: digest })
}

/** @param owners the keys of this host in `services`: its name, and `/<database id>` if the id belongs to this host */
function endpointOf(host: CompiledHost, owners: readonly string[], addressOf: AddressOf): HttpEndpoint {
  const has = [...host.services.keys()].map(service => `/${service}`).join(hasSeparator)
  const value = inOrder(ownerFields, { label: host.label, has })
  const services = new Map(owners.map(owner => [owner, value]))
  const callers = new Set<string>()
  for (const service of host.services.values()) {
    const network = networkOf(host, service.service)
    const value = serviceValue(network, addressOf(service.target), service)
    for (const owner of owners) services.set(`${owner}/${service.service}`, value)
    for (const cidr of service.rules) callers.add(callerKey(network, cidr))
  }
  return { services, callers }
}

/** Caches the entries of each host while its route and the addresses of its targets are unchanged. */
export function createHttpEndpointCache(addressOf: AddressOf): { endpoints(hosts: HostTable): HttpEndpoints } {
  const known = new WeakMap<CompiledHost, { state: string; endpoint: HttpEndpoint }>()
  const cached = (host: CompiledHost, owners: readonly string[]): HttpEndpoint => {
    const state = [...owners, ...[...host.services.values()].map(({ target }) => addressOf(target))].join(' ')
    const before = known.get(host)
    if (before?.state === state) return before.endpoint
    const endpoint = endpointOf(host, owners, addressOf)
    known.set(host, { state, endpoint })
    return endpoint
  }
  return {
    endpoints: ({ byName, byId }) =>
      new Map(
        [...byName].map(([name, host]) => {
          const ownsId = byId.get(host.databaseId) === host
          return [name, cached(host, ownsId ? [name, `/${host.databaseId}`] : [name])]
        }),
      ),
  }
}

const nothing: HttpEndpoint = { services: new Map(), callers: new Set() }

/** Returns the commands that change the maps from `have` to `want`. Empty if both are equal. */
export function planHttpMaps(paths: Paths, have: HttpEndpoints, want: HttpEndpoints): string[] {
  const changed = [...new Set([...have.keys(), ...want.keys()])]
    .map(host => ({ before: have.get(host) ?? nothing, after: want.get(host) ?? nothing }))
    .filter(({ before, after }) => before !== after)
  const plan = (commands: (before: HttpEndpoint, after: HttpEndpoint) => string[]) =>
    changed.flatMap(({ before, after }) => commands(before, after))
  return [
    // Callers are added first and deleted last, so that a caller that stays admitted is never refused in between.
    ...plan((before, after) => notIn(after.callers, before.callers).map(key => `add map ${paths.callers} ${key} 1`)),
    // A database id can move from one route to another. Its previous entry is deleted before the new entry is added,
    // because `del map` deletes every entry of a key.
    ...plan((before, after) => notIn(before.services, after.services).map(key => `del map ${paths.services} ${key}`)),
    ...plan((before, after) => writes(paths.services, before.services, after.services)),
    ...plan((before, after) => notIn(before.callers, after.callers).map(key => `del map ${paths.callers} ${key}`)),
  ]
}

const notIn = (keys: { keys(): Iterable<string> }, other: { has(key: string): boolean }): string[] =>
  [...keys.keys()].filter(key => !other.has(key))

function writes(map: string, before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] {
  return [...after].flatMap(([key, value]) => {
    const had = before.get(key)
    if (had === value) return []
    return [`${had === undefined ? 'add' : 'set'} map ${map} ${key} ${value}`]
  })
}

/** All map entries of these endpoints. `callers` is pushed first, so that no service exists before its callers. */
export function httpContentOf(paths: Paths, endpoints: HttpEndpoints): MapContent[] {
  const all = [...endpoints.values()]
  return [
    { map: paths.callers, lines: all.flatMap(({ callers }) => [...callers].map(key => `${key} 1`)) },
    { map: paths.services, lines: all.flatMap(({ services }) => [...services].map(entry => entry.join(' '))) },
  ]
}
