/** SQL by the API: it needs no entry in the allowlist, and each database and branch uses its own Postgres. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, eventually } from './client.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
})
afterAll(() => provider?.stop())

test('runs on a database and on its branch, but not on a suspended database', async () => {
  const { status: created, body: database } = await api.create({ name: 'spoken', ip_allowlist: { rules: [] } })
  expect(created).toBe(200)
  const path = `/databases/${database.id}`
  // On Kubernetes, the network may take a moment to apply the policy of a new pod.
  await eventually(
    'the endpoint runs the first statement',
    async () => (await api.sql(path, { text: 'SELECT 1' })).status === 200,
  )
  const rowsOf = async (of: string, body: object) => {
    const { status, lines } = await api.sql(of, { ...body })
    expect([status, lines.at(-1)?.type], JSON.stringify(lines)).toEqual([200, 'complete'])
    return lines.flatMap(line => (Array.isArray(line.rows) ? line.rows : []))
  }
  await rowsOf(path, { text: "CREATE TABLE words (w text); INSERT INTO words VALUES ('before')", mode: 'write' })
  const text = 'SELECT w, current_user FROM words ORDER BY w'
  expect(await rowsOf(path, { text })).toEqual([['before', 'app_read_only']])
  expect(await rowsOf(path, { text, role: 'admin' })).toEqual([['before', 'admin']])

  const { body: branch } = await api.call<{ id: string }>('POST', `${path}/branches`, undefined, { prefer: 'wait=60' })
  const branchPath = `${path}/branches/${branch.id}`
  await eventually(
    'the endpoint runs a statement on the branch',
    async () => (await api.sql(branchPath, { text: 'SELECT 1' })).status === 200,
  )
  await rowsOf(branchPath, { text: "INSERT INTO words VALUES ('branch')", mode: 'write' })
  expect(await rowsOf(branchPath, { text: 'SELECT count(*) FROM words' })).toEqual([['2']])
  expect(await rowsOf(path, { text: 'SELECT count(*) FROM words' })).toEqual([['1']])
  await api.call('DELETE', branchPath, undefined, { prefer: 'wait=60' })

  // After the password is replaced, the endpoint uses the new password.
  await api.call('POST', `${path}/roles/app_read_only/rotate-password`, undefined, { prefer: 'wait=60' })
  await eventually(
    'the endpoint uses the new password',
    async () => (await api.sql(path, { text: 'SELECT 1' })).status === 200,
  )

  await api.call('POST', `${path}/suspend`, undefined, { prefer: 'wait=60' })
  expect((await api.sql(path, { text: 'SELECT 1' })).status).toBe(409)
  await api.remove(database.id)
})
