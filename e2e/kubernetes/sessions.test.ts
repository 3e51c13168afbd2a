/** The gateway's guarantees for an allowlist change, with a real HAProxy and real sessions. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, connect, openTo, query, sqlState } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'

const sessions = 100
let provider: KindProvider
let api: ApiClient

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('sessions')
})
afterAll(() => provider?.stop())

test('closing the allowlist under 100 open sessions closes no session, and new sessions are refused within a second', async () => {
  const open = openTo(provider.clientAddress)
  const { body } = await api.create({ name: 'busy', size: 'wide', pg_version: '17', ip_allowlist: open })
  const connection = await api.connection(body.id)
  const clients = await Promise.all(Array.from({ length: sessions }, () => connect(connection)))

  const sentAt = performance.now()
  await api.change(body.id, { ip_allowlist: { rules: [] } })
  const acknowledgedAfter = performance.now() - sentAt
  // Only a few attempts: a client that is refused more often gets no answer, and these attempts share one address.
  for (let attempt = 0; attempt < 8; attempt++) expect(await sqlState(() => connect(connection))).toBe('28000')
  expect(acknowledgedAfter).toBeLessThan(1_000)

  const answers = await Promise.all(clients.map(client => client.query('SELECT 1 AS one')))
  expect(answers.map(({ rows }) => rows[0]?.one)).toEqual(Array(sessions).fill(1))

  await api.change(body.id, { ip_allowlist: open })
  expect(await query(connection, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  await Promise.all(clients.map(client => client.end()))
  await api.remove(body.id)
}, 240_000)

test("the address in a rule is the client's, not that of a proxy or node", async () => {
  const { body } = await api.create({ name: 'addresses', pg_version: '17' })
  const connection = await api.connection(body.id)
  await expect(connect(connection)).rejects.toThrow(provider.clientAddress)

  // A client inside the cluster has another address. Its own rule admits it, and does not admit this process.
  const { port } = connection
  const inside = await provider.clientPod('inside')
  const attempt = () => inside.psql({ ...connection, host: provider.nodeAddress, port }, 'SELECT 1')
  await expect(attempt()).rejects.toThrow(inside.address)
  await api.change(body.id, { ip_allowlist: openTo(inside.address) })
  expect(await attempt()).toContain('1')
  expect(await sqlState(() => connect(connection))).toBe('28000')
  await inside.remove()
  await api.remove(body.id)
}, 240_000)
