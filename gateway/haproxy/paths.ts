/**
 * The files that the agent and HAProxy share: one directory with the configuration, its maps and two sockets. The maps'
 * files stay empty, so that HAProxy admits no client when it starts. The paths of the files are the maps' names in the
 * runtime API.
 */
import { join } from 'node:path'

export type Paths = {
  configuration: string
  /** The script that limits logins. */
  logins: string
  /** The script that limits bodies. */
  bodies: string
  /** HAProxy's runtime API. */
  runtime: string
  /** The agent's socket for refused connections. */
  refusals: string
  /**
   * Map: a port and a client's network, to the target's address. Only the entries of this map admit Postgres clients.
   */
  allow: string
  /** Map: the ports that have a route. */
  ports: string
  /** Map: owner and service of an HTTP request, to the service's target (http-maps.ts). */
  services: string
  /** Map: the admitted callers, by the service's network and the caller's address (http-maps.ts). */
  callers: string
  /** The list of the HTTPS listener's certificates. */
  certificates: string
  /** The certificate for HTTPS clients that send no known server name. */
  defaultCertificate: string
  /** Map: `deadline` is the time until which HAProxy may admit clients, in seconds since the epoch. */
  state: string
}

/** The deadline's key in the map `state`. */
export const deadlineKey = 'deadline'
/** The key in the map `state` that is set while the replica drains: clients must connect to another replica. */
export const drainingKey = 'draining'

export const pathsIn = (directory: string): Paths => ({
  configuration: join(directory, 'haproxy.cfg'),
  logins: join(directory, 'logins.lua'),
  bodies: join(directory, 'bodies.lua'),
  runtime: join(directory, 'haproxy.sock'),
  refusals: join(directory, 'deny.sock'),
  allow: join(directory, 'allow.map'),
  ports: join(directory, 'ports.map'),
  services: join(directory, 'services.map'),
  callers: join(directory, 'callers.map'),
  certificates: join(directory, 'certificates.list'),
  defaultCertificate: join(directory, 'default.pem'),
  state: join(directory, 'state.map'),
})

/** The ports for Postgres, on which HAProxy always listens. */
export type PortRange = { first: number; last: number }
