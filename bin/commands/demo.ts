/** `espalier demo`: runs docs/tour.md on an installation that it removes afterwards. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { pino } from 'pino'
import { createClient } from '../../cli/api/client.ts'
import { send } from '../../cli/api/request.ts'
import type { Connection } from '../../cli/api/shapes.ts'
import { findConnection } from '../../cli/connect/connection.ts'
import { gatewayHost } from '../../embedded/catalogue.ts'
import { startInstallation } from '../../embedded/installation.ts'
import { findFreeRange } from '../../embedded/ports.ts'
import { readSettings } from '../../embedded/settings.ts'
import { mintToken } from '../../embedded/tokens.ts'
import { type Command, logLevel, parseFlags } from '../command.ts'

const help = `Runs the tour of docs/tour.md: starts an installation in a temporary directory, creates a database, shows that
the allowlist refuses and then accepts a connection, writes, reads, adds services, backs up, drops a table, restores, branches,
deletes, and removes all of it.

Usage: espalier demo

It uses free ports, so it can run beside another installation.`

/** Connection details, and the CA that verifies the server. */
type Access = { connection: Connection; authority: string }

/** Runs one step, and prints its outcome and its duration. */
async function step<T>(title: string, work: () => Promise<T>, outcome: (value: T) => string): Promise<T> {
  const start = performance.now()
  const value = await work()
  console.log(`${title}\n  ${outcome(value)} (${Math.round(performance.now() - start)} ms)`)
  return value
}

async function query({ connection, authority }: Access, text: string): Promise<unknown[]> {
  const { username, password, host, port, database } = connection
  const client = new pg.Client({ user: username, password, host, port, database, ssl: { ca: authority } })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

async function denial(access: Access): Promise<string> {
  try {
    await query(access, 'SELECT 1')
  } catch (error) {
    if (error instanceof pg.DatabaseError) return `FATAL ${error.code}: ${error.message}`
    throw error
  }
  throw new Error('the database accepted a client that its empty allowlist must refuse')
}

async function tour(base: string, token: string): Promise<void> {
  const client = createClient({ url: new URL(base), token })
  const created = await step(
    'Create a Postgres 18 database',
    () => client.create({ name: 'shop', region: 'local', size: 'nano' }),
    ({ name, status, ip_allowlist }) => `${name} is ${status}, its allowlist ${ip_allowlist.state}`,
  )
  const { connection } = await findConnection(client, { name: created.name, role: 'app' }, console.log)
  const access = { connection, authority: await client.authority() }
  await connectAndWrite(client, created.id, access)
  await addServices(client, created.id, access)
  await backUpAndRestore(client, created.id, access)
  await branchAndDelete(client, created.id, access)
  await step(
    'Delete it',
    () => client.remove(created.id),
    () => 'the database is deleted',
  )
  await step(
    'List the databases',
    () => client.list(),
    list => `${list.length} databases`,
  )
}

type Client = ReturnType<typeof createClient>

async function connectAndWrite(client: Client, id: string, access: Access): Promise<void> {
  await step(
    'Connect to it while its allowlist is empty',
    () => denial(access),
    text => text,
  )
  const address = await client.clientIp()
  await step(
    `Allow this address, ${address}`,
    () => client.change(id, { ip_allowlist: { rules: [{ cidr: address, label: 'this machine' }] } }),
    ({ status, ip_allowlist }) =>
      `${status}, allowlist ${ip_allowlist.state}: ${ip_allowlist.rules.map(rule => rule.cidr)}`,
  )
  await step(
    'Connect again, write and read',
    async () => {
      await query(access, 'CREATE TABLE fruit (name text); INSERT INTO fruit VALUES ($$pear$$), ($$quince$$)')
      return query(access, 'SELECT count(*) AS fruit, current_setting($$server_version$$) AS version FROM fruit')
    },
    rows => JSON.stringify(rows[0]),
  )
  await step(
    'Set its display name',
    () => client.change(id, { display_name: 'The fruit shop' }),
    ({ display_name, status }) => `${display_name}, ${status}`,
  )
}

/** Returns the response body of a service. Sends `message`, if present, as an MCP client does. */
async function queryService(
  url: string,
  authority: string,
  { token, message }: { token?: string | undefined; message?: unknown } = {},
): Promise<string> {
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(message === undefined ? {} : { accept: 'application/json, text/event-stream' }),
  }
  const method = message === undefined ? 'GET' : 'POST'
  const { text } = await send(new URL(url), { method, headers, body: message, authority })
  return text
}

const rest = { service_type: 'rest', rest_config: { db_schemas: 'public', db_anon_role: 'web' } }
const allFruit = {
  ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
  params: { name: 'query_database', arguments: { query: 'TABLE fruit' } },
}

async function addServices(client: Client, id: string, { connection, authority }: Access): Promise<void> {
  const address = await client.clientIp()
  const ip_allowlist = { rules: [{ cidr: address }] }
  const served = await step(
    'Add an HTTP API and MCP tools',
    () =>
      client.change(id, {
        services: [
          { ...rest, ip_allowlist },
          { service_type: 'mcp', ip_allowlist },
        ],
      }),
    ({ services = [] }) => services.map(({ service_type, state }) => `${service_type} is ${state}`).join(', '),
  )
  const find = (type: string) => served.services?.find(({ service_type }) => service_type === type)
  await step(
    'Read the rows over HTTPS',
    async () => {
      const admin = await client.read(id, 'admin')
      if (admin.connection === undefined) throw new Error('the database has no connection')
      await query(
        { connection: { ...connection, ...admin.connection, host: connection.host }, authority },
        'CREATE ROLE web',
      )
      await query({ connection, authority }, 'GRANT SELECT ON fruit TO web')
      for (let tries = 0; ; tries++) {
        const answer = await queryService(`${find('rest')?.uri}/fruit`, authority)
        if (answer.startsWith('[') || tries === 60) return answer
        await sleep(500)
      }
    },
    answer => answer.replaceAll('\n', ''),
  )
  const { services = [] } = await client.read(id)
  const mcp = services.find(({ service_type }) => service_type === 'mcp')
  await step(
    'Query it as a language model does, over MCP',
    () => queryService(`${mcp?.uri}/v1`, authority, { token: mcp?.mcp_config?.init_tokens, message: allFruit }),
    answer => answer.slice(0, 200),
  )
}

async function backUpAndRestore(client: Client, id: string, access: Access): Promise<void> {
  const backup = await step(
    'Take a backup while clients can connect',
    () => client.backUp(id),
    ({ status }) => status,
  )
  await step(
    'Drop the table by mistake',
    () => query(access, 'DROP TABLE fruit'),
    () => 'the table is dropped',
  )
  await step(
    'Restore the backup, in place',
    () => client.restore(id, { backup_id: backup.id }),
    ({ status }) => `${status}, at the same address, with the same password`,
  )
  await step(
    'Read the restored rows',
    () => query(access, 'SELECT count(*) AS fruit FROM fruit'),
    rows => JSON.stringify(rows[0]),
  )
}

async function branchAndDelete(client: Client, id: string, access: Access): Promise<void> {
  const branch = await step(
    'Create a branch',
    () => client.branch(id),
    ({ name, status }) => `${name} is ${status}, with its own address and passwords`,
  )
  if (branch.connection === undefined) throw new Error('the branch has no connection')
  const ofBranch = {
    connection: { ...branch.connection, host: branch.connection.host ?? access.connection.host },
    authority: access.authority,
  }
  await step(
    'Delete everything in the branch',
    async () => {
      await query(ofBranch, 'DELETE FROM fruit')
      const count = 'SELECT count(*) AS fruit FROM fruit'
      return [await query(ofBranch, count), await query(access, count)]
    },
    ([there, here]) => `in the branch ${JSON.stringify(there?.[0])}, in the database ${JSON.stringify(here?.[0])}`,
  )
  await step(
    'Delete the branch',
    () => client.removeBranch(id, branch.id),
    () => 'the branch is deleted',
  )
}

const command: Command = {
  help,
  async run(args) {
    parseFlags(args, {})
    const logger = pino({ level: logLevel('warn') }, pino.destination(2))
    const home = await mkdtemp(join(tmpdir(), 'espalier-demo-'))
    const { first, last } = await findFreeRange(gatewayHost, 20)
    const environment = {
      ESPALIER_PORTS: `${first + 2}-${last}`,
      ESPALIER_API_PORT: String(first),
      ESPALIER_HTTPS_PORT: String(first + 1),
      ESPALIER_USER: process.env.ESPALIER_USER,
      ESPALIER_POOL: 'off',
      ESPALIER_HOME: home,
    }
    try {
      const installation = await step(
        'Start Espalier in a temporary directory',
        () => startInstallation(readSettings(environment), logger),
        ({ api }) => `API at ${api}`,
      )
      try {
        await tour(
          installation.api,
          await mintToken(home, { tenant: 'demo', subject: 'demo', expiresIn: 3600, claims: {} }),
        )
      } finally {
        await installation.stop()
      }
    } finally {
      await rm(home, { recursive: true, force: true })
    }
    console.log('Done; everything was removed.')
    return 0
  },
}
export default command
