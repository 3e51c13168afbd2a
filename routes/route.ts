/**
 * The route table, with which the operator configures the gateways. A route is a ConfigMap in the system namespace.
 * `route-<port>` reserves a port. `route-http-<host>` reserves a host name for HTTP. The API server keeps names unique,
 * so creating the ConfigMap makes the reservation. A gateway does not serve unknown kinds, but acknowledges them. An
 * acknowledgement means that the gateway has read all routes.
 *
 * Each gateway replica renews its own Lease, `gateway-<identity>`. An annotation of the Lease contains the
 * resourceVersion up to which the replica has applied every route. A route is acknowledged if at least one replica is
 * live, and every live replica has reached the route's version. A replica that has not renewed its Lease for
 * `gatewayLeaseSeconds` refuses new connections until the replica has renewed the Lease and read all routes again.
 * After an additional time for clock skew, the operator no longer waits for this replica. A replica that stops cleanly
 * deletes its Lease. An expired Lease has no effect, so no other component deletes it. A replica that returns with the
 * same identity overwrites the Lease.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { ipv4Cidr } from '../crds/fields.ts'
import type { ObjectMeta } from '../crds/metadata.ts'

/** The Service to which connections are forwarded. */
const target = z.strictObject({ namespace: z.string(), service: z.string(), port: z.int().min(1).max(65535) })
const common = {
  databaseId: z.string(),
  /** The endpoint's name in logs and refusals, for example `shop-93a4b5c6`. */
  label: z.string(),
}
/** Masked CIDR blocks; an empty list closes the endpoint. */
const rules = z.array(ipv4Cidr).max(50)
/** A route by port. It has no `kind`, because older gateways refuse this key. */
const portRoute = z.strictObject({ ...common, target, rules, port: z.int().min(1).max(65535) })
/** A host name in lower case that is short enough for a ConfigMap's name. */
const hostName = z
  .string()
  .max(230)
  .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/)

export const serviceTypes = ['mcp', 'rest', 'rag'] as const
const httpService = z
  .strictObject({
    service: z.enum(serviceTypes),
    target,
    /** The port of the bridge beside the tool server, on the same Service. */
    bridgePort: z.int().min(1).max(65535).optional(),
    rules,
    /** SHA-256 of the bearer token in hexadecimal digits. Without it, no request to `rag` is forwarded. */
    tokenDigest: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional(),
    /** Set if the service cannot respond now. Then the gateway responds in its place. */
    unavailable: z.enum(['suspended', 'starting']).optional(),
  })
  .refine(each => each.bridgePort === undefined || each.service === 'mcp', {
    path: ['bridgePort'],
    error: 'only mcp has a bridge',
  })
const httpRoute = z.strictObject({
  ...common,
  kind: z.literal('http'),
  host: hostName,
  services: z
    .array(httpService)
    .max(serviceTypes.length)
    .refine(all => new Set(all.map(each => each.service)).size === all.length, 'at most one service of each type'),
})

export type Route = z.output<typeof portRoute>
/** A route by the host name of HTTP requests: the services of one database or branch. */
export type HttpRoute = z.output<typeof httpRoute>
export type HttpService = HttpRoute['services'][number]
export type ServiceType = HttpService['service']
export type RouteTarget = Route['target']

export const routeName = (port: number): string => `route-${port}`
export const httpRouteName = (host: string): string => `route-http-${host}`
/** The ConfigMap key that contains the route as JSON. */
export const routeKey = 'route.json'
export const routeComponent = 'route'

/** Returns the port that a ConfigMap with this name reserves. Returns undefined if it reserves none. */
export function portOfRoute(name: string): number | undefined {
  const port = Number(/^route-([1-9][0-9]{0,4})$/.exec(name)?.[1])
  return port <= 65535 ? port : undefined
}

/** Returns the host name that a ConfigMap with this name reserves. Returns undefined if it reserves none. */
export function hostOfRoute(name: string): string | undefined {
  const host = /^route-http-(.+)$/.exec(name)?.[1]
  return hostName.safeParse(host).data
}

type RouteMap = { metadata: { name: string }; data?: Record<string, string> }

/** A route, or the problem that makes it invalid, as `key.field: problem`. */
type ReadRoute = { route: Route; problem?: undefined } | { route?: undefined; problem: string }
type ReadHttpRoute = { route: HttpRoute; problem?: undefined } | { route?: undefined; problem: string }

const portNameProblem = 'the name of a port route must be route-<port>, with a port from 1 to 65535'

/**
 * A route with its kind, which its name contains. `unknown`: the kind is from a later version, or the port in the name
 * is invalid. Only an invalid port sets `problem`.
 */
type AnyRoute =
  | ({ kind: 'port'; port: number } & ReadRoute)
  | ({ kind: 'http'; host: string } & ReadHttpRoute)
  | { kind: 'unknown'; problem?: string }

/**
 * Reads a route of any kind from its ConfigMap. Reports a problem if the port or host in the JSON differs from the
 * name.
 */
export function readAnyRoute(configMap: RouteMap): AnyRoute {
  const { name } = configMap.metadata
  const port = portOfRoute(name)
  if (port !== undefined) return { kind: 'port', port, ...readAs(portRoute, 'port', port, configMap) }
  const host = hostOfRoute(name)
  if (host !== undefined) return { kind: 'http', host, ...readAs(httpRoute, 'host', host, configMap) }
  return /^route-[0-9]/.test(name) ? { kind: 'unknown', problem: portNameProblem } : { kind: 'unknown' }
}

/** Reads a route by port from its ConfigMap. */
export function readRoute(configMap: RouteMap): ReadRoute {
  const read = readAnyRoute(configMap)
  if (read.kind !== 'port') return { problem: portNameProblem }
  return read.route === undefined ? { problem: read.problem } : { route: read.route }
}

function readAs<C extends 'port' | 'host', R extends { [claim in C]: string | number }>(
  record: z.ZodType<R>,
  claim: C,
  claimed: R[C],
  { data }: RouteMap,
): { route: R; problem?: undefined } | { route?: undefined; problem: string } {
  const text = data?.[routeKey]
  if (text === undefined) return { problem: `has no ${routeKey}` }
  const value = parseJson(text)
  if (value === undefined) return { problem: `${routeKey} is not JSON` }
  const parsed = record.safeParse(value)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    return { problem: `${[routeKey, ...(issue?.path ?? [])].join('.')}: ${issue?.message}` }
  }
  if (parsed.data[claim] !== claimed) return { problem: `${routeKey}.${claim}: must be ${claimed}, as in the name` }
  return { route: parsed.data }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** On a gateway's Lease: the resourceVersion up to which it has applied every route. */
export const acknowledgedAnnotation = 'espalier.dev/acknowledged-resource-version'
/** On a gateway's Lease: the routed ports on which it could not listen, as `5432,5440`; absent if there are none. */
export const portsInUseAnnotation = 'espalier.dev/ports-in-use'
/**
 * On a gateway's Lease: routed ports whose databases it recently could not reach, as `5432,5440`; absent if there are
 * none. The operator checks the database of each newly listed port.
 */
export const unreachableAnnotation = 'espalier.dev/unreachable-ports'
export const gatewayComponent = 'gateway'
export const gatewayLeaseName = (identity: string): string => `gateway-${identity}`
/** A replica that has not renewed its Lease for this time refuses new connections. */
export const gatewayLeaseSeconds = 90
/** The allowed clock skew. The operator adds this time to `gatewayLeaseSeconds` before it treats a Lease as expired. */
export const gatewayClockSkewSeconds = 10

/**
 * If a gateway has not renewed its Lease for this time, the gateway accepts no new connections, whatever the allowed
 * clock skew.
 */
export const gatewaysClosedAfterMs = (gatewayLeaseSeconds + gatewayClockSkewSeconds) * 1000

/** The part of a Lease with the applied state of a gateway replica. */
export type GatewayLease = { metadata: ObjectMeta; spec?: { renewTime?: string } }

type Acknowledgement = {
  done: boolean
  /**
   * The names of the live Leases that have not acknowledged. If the list is empty and `done` is false, there is no live
   * gateway.
   */
  waitingFor: string[]
}

/**
 * Whether every live gateway has applied this version of a route. The Leases must have been listed from the cluster
 * (not from a cache) after the route was written. Otherwise, a replica without a Lease could accept connections before
 * it has read the route.
 */
export function acknowledged(
  routeResourceVersion: string,
  leases: readonly GatewayLease[],
  now: number,
): Acknowledgement {
  const live = leases.filter(lease => isLive(lease, now))
  const waitingFor = live
    .filter(lease => !atLeast(lease.metadata.annotations?.[acknowledgedAnnotation], routeResourceVersion))
    .map(lease => lease.metadata.name)
  return { done: live.length > 0 && waitingFor.length === 0, waitingFor }
}

/**
 * On a gateway's Lease: the digest of its HTTPS certificates. Absent from a gateway without HTTPS, and from earlier
 * versions.
 */
export const httpsCertificatesAnnotation = 'espalier.dev/https-certificates'

/** Returns the digest of PEM certificates, independent of their order. */
export function certificatesDigest(certificates: Iterable<string>): string {
  const each = [...certificates].map(text => createHash('sha256').update(text.trim()).digest('hex'))
  return createHash('sha256')
    .update([...new Set(each)].sort().join(' '))
    .digest('hex')
    .slice(0, 32)
}

/** Returns the names of the live Leases whose gateways serve HTTPS with certificates of another digest. */
export function otherCertificatesAt(digest: string, leases: readonly GatewayLease[], now: number): string[] {
  return leases
    .filter(lease => isLive(lease, now))
    .filter(({ metadata }) => (metadata.annotations?.[httpsCertificatesAnnotation] ?? digest) !== digest)
    .map(lease => lease.metadata.name)
}

/**
 * Returns the names of the live Leases whose gateways cannot listen on a port, because another program on their machine
 * uses it.
 */
export function portRefusedBy(port: number, leases: readonly GatewayLease[], now: number): string[] {
  return leases
    .filter(lease => isLive(lease, now))
    .filter(lease => lease.metadata.annotations?.[portsInUseAnnotation]?.split(',').includes(String(port)))
    .map(lease => lease.metadata.name)
}

/** Compares two states of a Lease. Returns the ports that were added to or removed from its ports in use. Pure. */
export function refusalChanged(lease: GatewayLease | undefined, previous: GatewayLease | undefined): number[] {
  const [now, before] = [lease, previous].map(each => new Set(portsIn(each, portsInUseAnnotation)))
  return [...(now ?? [])].filter(port => !before?.has(port)).concat([...(before ?? [])].filter(port => !now?.has(port)))
}

/** Returns the unreachable ports that a Lease lists and that its previous state did not list. Pure. */
export function newlyUnreachable(lease: GatewayLease, previous: GatewayLease | undefined): number[] {
  const before = new Set(portsIn(previous, unreachableAnnotation))
  return portsIn(lease, unreachableAnnotation).filter(port => !before.has(port))
}

/** Returns the ports that live gateways list as unreachable. */
export const unreachablePorts = (leases: readonly GatewayLease[], now: number): number[] => [
  ...new Set(leases.filter(lease => isLive(lease, now)).flatMap(lease => portsIn(lease, unreachableAnnotation))),
]

/** The maximum number of ports that `portsIn` reads, because it cannot trust the length of a gateway's list. */
const mostPorts = 100

const portsIn = (lease: GatewayLease | undefined, annotation: string): number[] =>
  (lease?.metadata.annotations?.[annotation] ?? '')
    .split(',', mostPorts)
    .map(Number)
    .filter(port => Number.isInteger(port) && port > 0 && port <= 65535)

function isLive(lease: GatewayLease, now: number): boolean {
  const renewed = Date.parse(lease.spec?.renewTime ?? '')
  return now - renewed < gatewaysClosedAfterMs
}

const version = /^[0-9]{1,30}$/

/** Compares resource versions as integers of at most 30 digits. Returns false for any other text. */
function atLeast(acknowledgedVersion: string | undefined, wanted: string): boolean {
  if (acknowledgedVersion === undefined || !version.test(acknowledgedVersion) || !version.test(wanted)) return false
  return BigInt(acknowledgedVersion) >= BigInt(wanted)
}
