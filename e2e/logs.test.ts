/** The log of a database as its user reads it, with a real Postgres. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, eventually, openTo, query, sqlState } from './client.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
})
afterAll(() => provider?.stop())

type Entry = {
  timestamp: string
  level: string
  message: string
  statement?: string
  user?: string
  state_code?: string
}
const logs = async (id: string, parameters = ''): Promise<Entry[]> => {
  const { status, body } = await api.call<{ logs: Entry[] }>('GET', `/databases/${id}/logs${parameters}`)
  expect(status).toBe(200)
  return body.logs
}

test('returns what Postgres has logged, newest first, without passwords', async () => {
  const { body: database } = await api.create({ name: 'told', ip_allowlist: openTo(provider.clientAddress) })
  const { id } = database
  const connection = await api.connection(id)
  expect(await sqlState(() => query(connection, 'TABLE pears'))).toBe('42P01')
  const secret = 'hunter2'
  for (const statement of [`ALTER ROLE nobody PASSWORD '${secret}'`, `ALTER ROLE app PASSWORD ${secret}`])
    expect(await sqlState(() => query(connection, statement))).not.toBe('none')
  await eventually('the log has the statement ALTER ROLE app', async () =>
    (await logs(id)).some(({ statement }) => statement?.startsWith('ALTER ROLE app')),
  )
  const all = await logs(id, '?max_lines=1000')
  const pears = all.find(({ statement }) => statement === 'TABLE pears')
  expect(pears).toMatchObject({
    level: 'ERROR',
    state_code: '42P01',
    user: 'app',
    message: expect.stringContaining('relation "pears"'),
  })
  expect(all.some(({ message }) => message.includes('ready to accept connections'))).toBe(true)
  expect(JSON.stringify(all)).not.toContain(secret)
  expect(JSON.stringify(all)).not.toContain(connection.password)
  const times = all.filter(({ level }) => level === 'ERROR').map(({ timestamp }) => timestamp)
  expect(times).toEqual(times.toSorted().reverse())

  const [newest] = await logs(id, '?max_lines=1')
  expect(await logs(id, '?max_lines=2')).toHaveLength(2)
  const at = pears?.timestamp ?? ''
  const later = new Date(Date.parse(at) + 1).toISOString()
  const within = await logs(id, `?start_time=${at}&end_time=${later}`)
  expect(within.some(({ statement }) => statement === 'TABLE pears')).toBe(true)
  expect((await logs(id, `?start_time=${later}`)).every(({ timestamp }) => timestamp > at)).toBe(true)
  expect(newest?.timestamp.length).toBe(24)

  // The log survives when the pod is replaced. It is unavailable while no pod runs.
  await api.call('POST', `/databases/${id}/suspend`, undefined, { prefer: 'wait=60' })
  expect(await logs(id)).toEqual([])
  await api.call('POST', `/databases/${id}/resume`, undefined, { prefer: 'wait=60' })
  const isReady = ({ message }: Entry) => message.includes('ready to accept connections')
  await eventually(
    'the log has the starts of both pods',
    async () => (await logs(id, '?max_lines=1000')).filter(isReady).length === 2,
  )
  const both = await logs(id, '?max_lines=1000')
  expect(both.some(({ statement }) => statement === 'TABLE pears')).toBe(true)
  expect(JSON.stringify(both)).not.toContain(secret)
  const stamps = both.map(({ timestamp }) => timestamp)
  expect(stamps).toEqual(stamps.toSorted().reverse())
  await api.remove(id)
})
