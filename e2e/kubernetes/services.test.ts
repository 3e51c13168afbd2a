/** Services under load through the gateway: a change of one service or a new password fails no request of any. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type ApiClient, eventually } from '../client.ts'
import type { Fetch } from '../https-fetch.ts'
import { startProvider } from '../provider.ts'
import type { Provider } from '../providers/provider.ts'
import {
  connectTools,
  createServed,
  fetchingFrom,
  load,
  mcp,
  rag,
  requestsTo,
  rest,
  serviceOf,
  stopAll,
  untilRunning,
} from '../service-load.ts'
import { isSessionLost, olderClient, openStream } from './mcp-sessions.ts'

let provider: Provider
let api: ApiClient
let fetching: Fetch
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
  fetching = await fetchingFrom(provider)
})
afterAll(() => provider?.stop())

test('no request of any service fails during a change of one service or a new password', async () => {
  const database = await createServed(api, 'loaded', provider.clientAddress)
  const { id } = database
  onTestFinished(async () => void (await api.remove(id)))
  const send = requestsTo(database, fetching)
  expect(await send.rest()).toBe(10)
  expect(await send.rag()).toContain('docs')
  const { uri } = serviceOf(database, 'rag')
  const refused = await fetching(`${uri}/v1/pipelines`, { headers: { authorization: 'Bearer wrong' } })
  expect(refused.status).toBe(401)

  const direct = await connectTools(database, fetching)
  onTestFinished(() => direct.close())
  const call = async () => {
    const answer = await direct.callTool({ name: 'query_database', arguments: { query: 'SELECT count(*) FROM fruit' } })
    if (answer.isError || !JSON.stringify(answer).includes('20')) throw new Error(JSON.stringify(answer.content))
  }
  const older = await olderClient(database, fetching)
  onTestFinished(() => older.close())
  const stream = await openStream(database, fetching)
  onTestFinished(() => stream.close())

  const bridged = load('mcp by a session of its bridge', older.call, isSessionLost)
  const loads = [
    load('rest', send.rest),
    load('mcp', call),
    load('mcp without a session', send.mcp),
    load('rag', send.rag),
    bridged,
  ]
  const changed = await api.change(id, { services: [mcp, rest(5), rag] })
  expect(changed, JSON.stringify(changed.body)).toMatchObject({ status: 200 })
  await untilRunning(api, id)
  await eventually('REST serves with the new configuration', async () => (await send.rest()) === 5, 5_000)
  // mcp was not changed, so its sessions and streams continue.
  expect(loads.flatMap(({ failures }) => failures)).toEqual([])
  expect([bridged.accepted(), stream.ended()]).toEqual([0, undefined])

  for (const role of ['app_read_only', 'app']) {
    const rotated = await api.call('POST', `/databases/${id}/roles/${role}/rotate-password`, undefined, {
      prefer: 'wait=60',
    })
    expect(rotated.status).toBe(204)
  }
  await untilRunning(api, id)
  await new Promise(resolve => setTimeout(resolve, 3_000))
  expect(await stopAll(loads)).toEqual([])
  // A client gets at most one error about an unknown session per rollout, and then begins another session.
  expect(bridged.accepted()).toBeLessThanOrEqual(2)
  for (const { count } of loads) expect(count()).toBeGreaterThan(20)
})
