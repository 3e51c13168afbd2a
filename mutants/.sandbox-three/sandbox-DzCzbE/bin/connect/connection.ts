/** From a database's name to how one connects to it as a role: host, port, password, and what its certificate is for. */
// @ts-nocheck

import type { Client, Connection, Database, UserType } from '../api-client.ts'

/** Nobody can connect, and the message says why. */
export class ConnectFailure extends Error {
  override readonly name = 'ConnectFailure'
}

export const roles = ['app', 'admin', 'app_read_only'] as const
export type Role = (typeof roles)[number]

const userTypes: Record<Role, UserType> = {
  app: 'application',
  admin: 'admin',
  app_read_only: 'application_read_only',
}

/** How many names an error lists. */
const listed = 10

/** What is under way for a database that will have an address when it is done. */
const comesSoon = new Set(['creating', 'resuming', 'restoring'])

export type Found = { database: Database; connection: Connection & { host: string } }

/** `say` tells what is waited for. @throws ConnectFailure where nobody can connect, saying why */
export async function findConnection(
  client: Client,
  name: string,
  role: Role,
  say: (line: string) => void,
): Promise<Found> {
  const databases = await client.list()
  const found = databases.find(database => database.name === name)
  if (found === undefined) throw new ConnectFailure(`there is no database ${JSON.stringify(name)}: ${known(databases)}`)
  const database = await readConnectable(client, found.id, userTypes[role], say)
  const { connection } = database
  if (connection?.host === undefined)
    throw new ConnectFailure(`${name} is ${database.status}: ${unconnectable(database)}`)
  return { database, connection: { ...connection, host: connection.host } }
}

function known(databases: readonly Database[]): string {
  if (databases.length === 0) return 'the account has none'
  const names = databases.slice(0, listed).map(database => database.name)
  const more = databases.length - names.length
  return `there ${databases.length === 1 ? 'is' : 'are'} ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

async function readConnectable(
  client: Client,
  id: string,
  userType: UserType,
  say: (line: string) => void,
): Promise<Database> {
  const database = await client.read(id, userType)
  const cannot = database.status === 'deleting' || database.status === 'suspended' || database.status === 'suspending'
  if (cannot) return { ...database, connection: undefined }
  if (!comesSoon.has(database.status)) return database
  say(`${database.name} is ${database.status}: waiting for it`)
  return client.read(id, userType, true)
}

function unconnectable({ status, id }: Database): string {
  if (status === 'deleting') return 'nobody can connect any more'
  if (status === 'suspended' || status === 'suspending') return 'resume it first'
  return `it has no address yet, or this role has no password; GET /managed/v1/tasks?subject_id=${id} says what holds it up`
}
