/** From the name of a database, or of a branch of it, to how one connects as a role: host, port, password, and what the certificate is for. */
import type { Branch, Client, Connection, Database, UserType } from '../api-client.ts'

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

/** What is under way for what will have an address when it is done. */
const comesSoon = new Set(['creating', 'resuming', 'restoring'])
/** The API gives their addresses, of which none answers. */
const isClosed = new Set(['deleting', 'deleted', 'suspended', 'suspending'])

/** `branch`: its assigned name, its display name or its id. */
type Wanted = { name: string; branch?: string | undefined; role: Role }
type Instance = Pick<Database & Branch, 'id' | 'name' | 'status' | 'domain' | 'connection'>
export type Found = { domain: string | undefined; connection: Connection & { host: string } }

/** `say` tells what is waited for. @throws ConnectFailure where nobody can connect, saying why */
export async function findConnection(
  client: Client,
  { name, branch, role }: Wanted,
  say: (line: string) => void,
): Promise<Found> {
  const database = pick('database', name, await client.list(), 'the account')
  const { id } = database
  if (branch === undefined) return connectable(wait => client.read(id, userTypes[role], wait), say)
  const found = pick('branch', branch, await client.branches(id), name)
  return connectable(wait => client.readBranch(id, found.id, userTypes[role], wait), say)
}

type Named = Pick<Branch, 'id' | 'name' | 'display_name'>

/** @throws ConnectFailure where none is called so, or several are */
function pick<T extends Named>(what: 'database' | 'branch', wanted: string, all: readonly T[], whose: string): T {
  const exact = all.find(({ id, name }) => name === wanted || (what === 'branch' && id === wanted))
  // A display name is anybody's choice, and need not be the only one.
  const called = what === 'branch' ? all.filter(one => one.display_name === wanted) : []
  const found = exact ?? called[0]
  if (exact === undefined && called.length > 1)
    throw new ConnectFailure(
      `${whose} has ${called.length} branches called ${JSON.stringify(wanted)}: ${known(called, whose)}`,
    )
  if (found === undefined)
    throw new ConnectFailure(`there is no ${what} ${JSON.stringify(wanted)}: ${known(all, whose)}`)
  return found
}

function known(all: readonly Named[], whose: string): string {
  if (all.length === 0) return `${whose} has none`
  const names = all.slice(0, listed).map(({ name }) => name)
  const more = all.length - names.length
  return `there ${all.length === 1 ? 'is' : 'are'} ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

async function connectable(read: (wait: boolean) => Promise<Instance>, say: (line: string) => void): Promise<Found> {
  let instance = await read(false)
  if (comesSoon.has(instance.status)) {
    say(`${instance.name} is ${instance.status}: waiting for it`)
    instance = await read(true)
  }
  const { name, status, domain, connection } = instance
  if (isClosed.has(status) || connection?.host === undefined)
    throw new ConnectFailure(`${name} is ${status}: ${unconnectable(instance)}`)
  return { domain, connection: { ...connection, host: connection.host } }
}

function unconnectable({ status, id }: Instance): string {
  if (status === 'deleting' || status === 'deleted') return 'nobody can connect any more'
  if (status === 'suspended' || status === 'suspending') return 'resume it first'
  return `it has no address yet, or this role has no password; GET /managed/v1/tasks?subject_id=${id} says what holds it up`
}
