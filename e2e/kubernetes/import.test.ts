/**
 * An import from one database of the cluster into another, through the gateway: its pod, its NetworkPolicy, its roles
 * and its end.
 */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { childNames, importSourceName } from '../../crds/index.ts'
import { type Connection, type Database, eventually, openTo, query } from '../client.ts'
import { minutes, type Serving, startServing } from './serving.ts'

type Imported = Database & { import?: { status: string; tables?: number; rows?: number; error?: string } }

/** The addresses of pods in kind. The gateway sees the pod of an import with one of them. */
const pods = '10.244.0.0/16'

let serving: Serving
let source: Connection
beforeAll(async () => {
  serving = await startServing('imported', 'old')
  const { api, database, provider } = serving
  const rules = [...openTo(provider.clientAddress).rules, { cidr: pods, label: 'pods' }]
  expect((await api.change(database.id, { ip_allowlist: { rules } })).status).toBe(200)
  // The connection that the API returns leads to this machine. A pod reaches the same gateway at the node's address.
  source = { ...(await api.connection(database.id)), host: provider.nodeAddress }
  await query(
    await api.connection(database.id),
    `CREATE TABLE orders (id serial PRIMARY KEY, total int NOT NULL CHECK (total > 0));
     INSERT INTO orders (total) SELECT generate_series(1, 1000);
     CREATE VIEW large AS SELECT id FROM orders WHERE total > 990`,
  )
}, minutes(4))
afterAll(() => serving?.stop())

/** @returns the database once it has this status */
async function importFrom({ username, password, host, port, database }: Connection, name: string, status: string) {
  const { api, provider } = serving
  const uri = `postgresql://${username}:${encodeURIComponent(password)}@${host}:${port}/${database}?sslmode=require`
  const ip_allowlist = openTo(provider.clientAddress)
  const created = await api.create({ name, pg_version: '17', source: { uri }, ip_allowlist }, {})
  expect(created.status, JSON.stringify(created.body)).toBe(200)
  const { id } = created.body
  onTestFinished(async () => void (await api.remove(id)))
  return eventually(
    `${name} is ${status}`,
    async () => {
      const { body } = await api.call<Imported>('GET', `/databases/${id}`)
      if (body.status !== status) throw new Error(JSON.stringify(body.import))
      return body
    },
    minutes(3),
  )
}

/** The objects of an import. They must be deleted when the import ends. */
async function remainingOf(id: string): Promise<string[]> {
  const { cluster } = serving.provider
  const { namespace } = serving
  const name = childNames.import(id)
  const found = {
    pod: await cluster.get('Pod', { namespace, name }),
    secret: await cluster.get('Secret', { namespace, name }),
    policy: await cluster.get('NetworkPolicy', { namespace, name }),
    source: await cluster.get('Secret', { namespace, name: importSourceName(id) }),
  }
  return Object.entries(found).flatMap(([kind, object]) => (object === undefined ? [] : [kind]))
}

test(
  'a database gets the data of another database of the cluster, and no object of its import remains',
  async () => {
    const imported = await importFrom(source, 'new', 'available')
    expect(imported.import).toMatchObject({ status: 'completed', tables: 1, rows: 1000 })
    const connection = await serving.api.connection(imported.id)
    expect(await query(connection, 'SELECT count(*)::int AS n FROM large')).toEqual([{ n: 10 }])
    expect(await query(connection, 'INSERT INTO orders (total) VALUES (1) RETURNING id')).toEqual([{ id: 1001 }])
    await eventually(
      'every object of the imported database is deleted',
      async () => (await remainingOf(imported.id)).length === 0,
    )
  },
  minutes(4),
)

test(
  'a source that refuses the password ends the import with that reason',
  async () => {
    const refused = await importFrom({ ...source, password: 'wrong' }, 'refused', 'failed')
    expect(refused.import).toMatchObject({ status: 'failed' })
    expect(refused.import?.error).toContain('SourceRefused')
    expect(refused.import?.error).not.toContain('wrong@')
    await eventually(
      'every object of the refused database is deleted',
      async () => (await remainingOf(refused.id)).length === 0,
    )
  },
  minutes(4),
)
