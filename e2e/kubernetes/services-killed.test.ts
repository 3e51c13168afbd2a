/**
 * Both operator pods are killed at moments during a change of one service, under load. Every change is applied, and no
 * request of any service fails. The moments continue until the replaced workload is deleted. ESPALIER_SOAK_MOMENTS sets
 * their number; ESPALIER_SOAK_SEED repeats the random choices.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type ApiClient, eventually } from '../client.ts'
import type { Fetch } from '../https-fetch.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { createServed, fetchingFrom, mcp, rag, requestsTo, rest, stopAll, untilRunning } from '../service-load.ts'
import { createChance, seed } from './chance.ts'
import { killOperators } from './kills.ts'
import { openStream } from './mcp-sessions.ts'
import { clientsOf, loadAll } from './service-clients.ts'
import { minutes } from './serving.ts'
import { soakCount } from './soak-count.ts'

const moments = soakCount('ESPALIER_SOAK_MOMENTS', 20)

/** How long a replaced workload is retained (`services.settleMs`), plus the time of one pass. */
const deletedMs = 12_000

let provider: KindProvider
let api: ApiClient
let fetching: Fetch
beforeAll(async () => {
  provider = await startKind()
  api = await provider.client('killed-services')
  fetching = await fetchingFrom(provider)
})
afterAll(() => provider?.stop())

test(
  `a change of a service survives kills of the operator at ${moments} moments`,
  async () => {
    const database = await createServed(api, 'changing', provider.clientAddress)
    const { id } = database
    onTestFinished(async () => void (await api.remove(id)))
    const send = requestsTo(database, fetching)
    /** @returns the duration of the change, in ms */
    const change = async (rows: number, meanwhile: () => Promise<void>): Promise<number> => {
      const from = performance.now()
      const changed = await api.change(id, { services: [mcp, rest(rows), rag] }, {})
      expect(changed.status, JSON.stringify(changed.body)).toBe(200)
      await meanwhile()
      await untilRunning(api, id, minutes(3))
      const took = performance.now() - from
      await eventually('REST serves with the new configuration', async () => (await send.rest()) === rows, 5_000)
      return took
    }
    const takes = await change(9, async () => {})
    const chance = createChance('services')
    const clients = await clientsOf(database, fetching)
    onTestFinished(() => clients.close())
    const stream = await openStream(database, fetching)
    onTestFinished(() => stream.close())
    const loads = loadAll(clients)
    for (let moment = 0; moment < moments; moment++) {
      const after = chance.between(0, takes + deletedMs)
      const took = await change(10 + (moment % 2), async () => {
        await sleep(after)
        await killOperators(provider)
      })
      console.log(
        `killed after ${Math.round(after)} of ${Math.round(takes)} ms: took ${Math.round(took)} ms, seed ${seed}`,
      )
      expect(loads.flatMap(({ failures }) => failures).slice(0, 20)).toEqual([])
    }
    expect(await stopAll(loads)).toEqual([])
    expect(stream.ended()).toBe(undefined)
    for (const { count } of loads) expect(count()).toBeGreaterThan(moments * 10)
  },
  minutes(2 * moments + 5),
)
