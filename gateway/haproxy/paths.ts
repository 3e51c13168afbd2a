/**
 * The files that the agent and HAProxy share: one directory with the configuration, its maps and two sockets. The maps'
 * files stay empty, so that a starting HAProxy admits no client; their paths are the maps' names in the runtime API.
 */
import { join } from 'node:path'

export type Paths = {
  configuration: string
  /** The script that counts logins. */
  logins: string
  /** The script that limits bodies. */
  bodies: string
  /** HAProxy's runtime API. */
  runtime: string
  /** The agent's socket for refused connections. */
  refusals: string
  /** Port and network to the address that its connections are forwarded to: everything that is admitted. */
  allow: string
  /** Ports that have a route. */
  ports: string
  /** Owner and service of HTTP requests to the service's target (http-maps.ts). */
  services: string
  /** Network of a service and caller; the callers that are admitted. */
  callers: string
  /** The list of certificates of the HTTPS listener, and the certificate that clients without a known name get. */
  certificates: string
  defaultCertificate: string
  /** `deadline`: until when HAProxy may admit, in seconds since the epoch. */
  state: string
}

/** The deadline's key in the map `state`. */
export const deadlineKey = 'deadline'
/** The key in the map `state` that shows that the replica is about to stop, so that clients connect to another one. */
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

/** The ports of Postgres, which HAProxy always listens on. */
export type PortRange = { first: number; last: number }
