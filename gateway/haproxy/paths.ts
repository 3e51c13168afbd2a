/**
 * What the agent and HAProxy share: one directory with the configuration, its maps and two sockets. The maps' files
 * stay empty, so that a HAProxy that starts admits nobody; their paths are the names by which the runtime API knows them.
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
  /** The agent's socket for connections that are to be refused. */
  refusals: string
  /** Port and network to the address that its connections go to; the whole of what is admitted. */
  allow: string
  /** Ports that have a route. */
  ports: string
  /** Owner and service of HTTP requests to what leads to the service (http-maps.ts). */
  services: string
  /** Network of a service and caller; the callers that are admitted. */
  callers: string
  /** The list of certificates of the HTTPS listener, and the certificate that clients without a known name get. */
  certificates: string
  defaultCertificate: string
  /** `deadline`: until when HAProxy may admit, in seconds since the epoch. */
  state: string
}

/** By this key the deadline stands in the map `state`. */
export const deadlineKey = 'deadline'
/** By this key the map `state` says that the replica is about to stop, so that clients connect to another one. */
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

/** The ports of Postgres, which HAProxy listens on all the time. */
export type PortRange = { first: number; last: number }
