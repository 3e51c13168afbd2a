/**
 * Finds a database or branch by name, and returns a role's connection: host, port, password, and the name in the
 * certificate.
 */

import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import { type Client, longestWait, type UserType } from '../api/client.ts'
import type { Branch, Connection, Database } from '../api/shapes.ts'
import { CommandFailure } from '../errors.ts'
import { findBranch, findDatabase } from '../find.ts'

export const roles = ['app', 'admin', 'app_read_only'] as const
export type Role = (typeof roles)[number]

const userTypes: Record<Role, UserType> = {
  app: 'application',
  admin: 'admin',
  app_read_only: 'application_read_only',
}

/** Statuses of a running operation that will assign an address. */
const comesSoon = new Set(['creating', 'resuming', 'restoring'])
/** Statuses in which the API returns an address, but connections are not accepted. */
const isClosed = new Set(['deleting', 'deleted', 'suspended', 'suspending'])

/** `branch`: its assigned name, its display name or its id. */
type Wanted = { name: string; branch?: string | undefined; role: Role }
type Instance = Pick<Database & Branch, 'name' | 'status' | 'domain' | 'connection'>
export type Found = { domain: string | undefined; connection: Connection & { host: string } }

/** `note` prints the object and status if the command waits. @throws CommandFailure if a connection is not possible */
export async function findConnection(
  client: Client,
  { name, branch, role }: Wanted,
  note: (line: string) => void,
): Promise<Found> {
  const database = await findDatabase(client, name)
  const { id } = database
  if (branch === undefined) return connectable(wait => client.read(id, userTypes[role], wait), note)
  const found = await findBranch(client, database, branch)
  return connectable(wait => client.readBranch(id, found.id, userTypes[role], wait), note)
}

async function connectable(read: (wait: number) => Promise<Instance>, note: (line: string) => void): Promise<Found> {
  let instance = await read(0)
  if (comesSoon.has(instance.status)) {
    note(`${escapeControls(`${instance.name} is ${instance.status}`)}: waiting until it is available`)
    instance = await read(longestWait)
  }
  const { name, status, domain, connection } = instance
  if (isClosed.has(status) || connection?.host === undefined)
    throw new CommandFailure(`${escapeControls(`${name} is ${status}`)}: ${unconnectable(instance)}`)
  return { domain, connection: { ...connection, host: connection.host } }
}

function unconnectable({ name, status }: Instance): string {
  if (status === 'deleting' || status === 'deleted') return 'connections are no longer accepted'
  if (status === 'suspended' || status === 'suspending')
    return `resume it first: ${program} resume ${escapeControls(name)}`
  return `it has no address yet, or this role has no password: run ${program} tasks to see the reason`
}
