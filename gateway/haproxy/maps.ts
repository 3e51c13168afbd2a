/**
 * The map entries of each port, and the runtime commands that change HAProxy's maps to the desired entries. Pure. A
 * change of a route writes only the entries of this route.
 */

import type { RouteTarget } from '../../routes/route.ts'
import { parseCidr } from '../../values/cidr.ts'
import type { CompiledRoute, RouteTable } from '../table.ts'
import { deadlineKey, type Paths, type PortRange } from './paths.ts'

/** A routed port: its target as `ip:port` (absent: no target), and the CIDR blocks that it admits. */
export type Endpoint = { to: string | undefined; rules: readonly string[] }
/** Endpoints by port. Unchanged ports keep the same object. */
export type Endpoints = ReadonlyMap<number, Endpoint>

/** The key in the map `allow` for one port and one CIDR block: an IPv6 network. */
export function allowKey(port: number, cidr: string): string {
  const [address, prefix] = cidr.split('/')
  return `fd00::${port.toString(16)}:${address}/${96 + Number(prefix)}`
}

type EndpointCache = {
  /** Returns the endpoints of a table that are within the port range. */
  endpoints(table: RouteTable): Endpoints
}

/** Caches the endpoint of each route while the route and its target's address are unchanged. */
export function createEndpointCache(
  range: PortRange,
  addressOf: (target: RouteTarget) => string | undefined,
): EndpointCache {
  const known = new WeakMap<CompiledRoute, Endpoint>()
  const endpointOf = (compiled: CompiledRoute): Endpoint => {
    const to = compiled.target && addressOf(compiled.target)
    const before = known.get(compiled)
    if (before !== undefined && before.to === to) return before
    const endpoint = { to, rules: compiled.rules }
    known.set(compiled, endpoint)
    return endpoint
  }
  return {
    endpoints: table =>
      new Map([...table].filter(([port]) => isWithin(range, port)).map(([port, route]) => [port, endpointOf(route)])),
  }
}

export const isWithin = ({ first, last }: PortRange, port: number): boolean => port >= first && port <= last

const admitted = (endpoint: Endpoint | undefined): Set<string> =>
  new Set(endpoint?.to === undefined ? [] : endpoint.rules)

/** Returns the commands that change the maps from `have` to `want`. Empty if both are equal. */
export function planMaps(paths: Paths, have: Endpoints, want: Endpoints): string[] {
  const commands: string[] = []
  for (const port of have.keys())
    if (!want.has(port)) commands.push(...planPort(paths, port, have.get(port), undefined))
  for (const [port, endpoint] of want) commands.push(...planPort(paths, port, have.get(port), endpoint))
  return commands
}

function planPort(paths: Paths, port: number, have: Endpoint | undefined, want: Endpoint | undefined): string[] {
  if (have === want) return []
  const before = admitted(have)
  const after = admitted(want)
  const commands: string[] = []
  const { allow, ports } = paths
  // New rules are added before old rules are deleted, so that an address that stays admitted is never refused in
  // between.
  for (const rule of after) {
    if (!before.has(rule)) commands.push(`add map ${allow} ${allowKey(port, rule)} ${want?.to}`)
    else if (have?.to !== want?.to) commands.push(`set map ${allow} ${allowKey(port, rule)} ${want?.to}`)
  }
  for (const rule of before) if (!after.has(rule)) commands.push(`del map ${allow} ${allowKey(port, rule)}`)
  if (have === undefined) commands.push(`add map ${ports} ${port} 1`)
  if (want === undefined) commands.push(`del map ${ports} ${port}`)
  return commands
}

/** Every entry of a map, as lines for a payload. */
export type MapContent = { map: string; lines: string[] }

/**
 * All map entries of these endpoints. `ports` is pushed first, because HAProxy closes connections to a missing port
 * without an error message.
 */
export function contentOf(paths: Paths, endpoints: Endpoints): MapContent[] {
  const allow = [...endpoints].flatMap(([port, endpoint]) =>
    [...admitted(endpoint)].map(rule => `${allowKey(port, rule)} ${endpoint.to}`),
  )
  return [
    { map: paths.ports, lines: [...endpoints.keys()].map(port => `${port} 1`) },
    { map: paths.allow, lines: allow },
  ]
}

export const deadlineContent = (paths: Paths, seconds: number): MapContent => ({
  map: paths.state,
  lines: [`${deadlineKey} ${seconds}`],
})

export const setDeadline = (paths: Paths, seconds: number): string => `set map ${paths.state} ${deadlineKey} ${seconds}`

/** HAProxy reads a command with its payload into one buffer of 16 KiB. */
const longestCommand = 8 * 1024

/** Commands that add these lines to a version of a map, each small enough for HAProxy's buffer. */
export function addCommands(map: string, version: string, lines: readonly string[]): string[] {
  const commands: string[] = []
  let payload = ''
  const flush = () => {
    if (payload !== '') commands.push(`add map @${version} ${map} <<\n${payload}`)
    payload = ''
  }
  for (const line of lines) {
    if (payload.length + line.length > longestCommand) flush()
    payload += `${line}\n`
  }
  flush()
  return commands
}

/** Whether a text is an IPv4 address that HAProxy may connect to. */
export const isTargetAddress = (text: string): boolean => !text.includes('/') && parseCidr(text) !== undefined
