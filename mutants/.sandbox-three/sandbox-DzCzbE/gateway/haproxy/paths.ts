/**
 * What the agent and HAProxy share: one directory with the configuration, its maps and two sockets. The maps' files
 * stay empty, so that a HAProxy that starts admits nobody; their paths are the names by which the runtime API knows them.
 */
// @ts-nocheck

import { join } from 'node:path'

export type Paths = {
  configuration: string
  /** The script that counts logins. */
  logins: string
  /** HAProxy's runtime API. */
  runtime: string
  /** The agent's socket for connections that are to be refused. */
  refusals: string
  /** Port and network to the address that its connections go to; the whole of what is admitted. */
  allow: string
  /** Ports that have a route. */
  ports: string
  /** `deadline`: until when HAProxy may admit, in seconds since the epoch. */
  state: string
}

/** By this key the deadline stands in the map `state`. */
export const deadlineKey = 'deadline'

export const pathsIn = (directory: string): Paths => ({
  configuration: join(directory, 'haproxy.cfg'),
  logins: join(directory, 'logins.lua'),
  runtime: join(directory, 'haproxy.sock'),
  refusals: join(directory, 'deny.sock'),
  allow: join(directory, 'allow.map'),
  ports: join(directory, 'ports.map'),
  state: join(directory, 'state.map'),
})
