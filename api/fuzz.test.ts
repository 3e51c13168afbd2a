/**
 * Fuzzes the API from its OpenAPI description. Expects no findings except the listed findings, each with its reason.
 */
import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isSoak } from '../operator/testing/soak.ts'
import { pythonLibrary } from '../services/testing/python-package.ts'
import type { Agents } from './agents.ts'
import { type Client, setSnapshotClass, startClient } from './testing/client.ts'
import { descriptionOf } from './testing/contract.ts'
import { unexcused } from './testing/fuzz-exceptions.ts'
import { token } from './testing/harness.ts'
import { runSchemathesis } from './testing/schemathesis.ts'
import { startStandIn } from './testing/stand-in.ts'

const library = pythonLibrary('schemathesis', '4.32.5')

/** Agents without metrics. */
const agents: Agents = {
  read: async ({ id }, path) =>
    path.startsWith('/samples') ? { id, samples: [] } : { id, isWhole: true, entries: [] },
}

let client: Client
let url: string
let stopStandIn: () => Promise<void>
beforeAll(async () => {
  client = await startClient({ agents, resolve: () => undefined })
  await setSnapshotClass(client, { name: 'snapshots', atomic: true })
  stopStandIn = await startStandIn(client)
  url = await client.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await stopStandIn?.()
  await client?.close()
})

const seconds = isSoak ? 120 : 20

if (library === undefined) test.skip('a fuzzer: needs the Python package schemathesis', () => {})
else
  test('a fuzzer finds nothing in twenty seconds, and in two minutes of a soak', async () => {
    const seed = isSoak ? Number(process.env.ESPALIER_SOAK_SEED || randomInt(2 ** 31)) : 1
    if (isSoak) console.log(`ESPALIER_SOAK_SEED=${seed}`)
    const outcome = await runSchemathesis({
      library,
      url,
      token: await token(),
      seed,
      seconds,
    })
    expect(unexcused(outcome.findings)).toEqual([])
    expect(outcome).toMatchObject({ stopped: expect.stringMatching(/completed|time/), errors: [] })
    const described = Object.entries((await descriptionOf(client.app)).paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
    )
    // The machine's speed decides how many requests fit into the short time.
    expect(outcome.cases).toBeGreaterThan(0)
    if (!isSoak) return
    // The fuzzer does not test the path from which it read the description.
    const untested = described.filter(operation => !outcome.operations.has(operation))
    expect(untested.sort()).toEqual(['GET /managed/v1/events', 'GET /managed/v1/openapi.json'])
  }, 300_000)
