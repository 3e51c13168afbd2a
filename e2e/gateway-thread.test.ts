/** The gateway's thread in an embedded installation: it does not wait for other threads, and its end is reported. */
import { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, startInstallation } from '../embedded/installation.ts'
import { readSettings } from '../embedded/settings.ts'
import { mintToken } from '../embedded/tokens.ts'
import { type Connection, connect, createApiClient, openToThisMachine } from './client.ts'
import { createHome, type Home } from './process.ts'
import type { TimedLogin } from './testing/login-loop.ts'

let home: Home
let installation: Installation
let connection: Connection

beforeAll(async () => {
  home = await createHome(2)
  installation = await startInstallation(readSettings(home.environment), pino({ level: 'silent' }))
  const token = await mintToken(home.path, { tenant: 'demo', subject: 'test', expiresIn: 3600, claims: {} })
  const api = createApiClient(installation.api, token)
  const { body } = await api.create({ name: 'shop', ip_allowlist: openToThisMachine })
  connection = await api.connection(body.id)
})
afterAll(() => home?.remove())

test('logins begin and end while the event loop of API and operator is blocked', async () => {
  const logins: TimedLogin[] = []
  const worker = new Worker(new URL('./testing/login-loop.ts', import.meta.url), { workerData: connection })
  worker.on('message', (login: TimedLogin) => logins.push(login))
  try {
    await expect.poll(() => logins.length).toBeGreaterThan(0)
    const began = Date.now()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000)
    const ended = Date.now()
    await expect.poll(() => logins.some(login => login.began > ended)).toBe(true)
    const meanwhile = logins.filter(login => login.began > began && login.ended < ended)
    expect(meanwhile.length).toBeGreaterThan(2)
  } finally {
    await worker.terminate()
  }
})

test('when the installation stops, clients get the reason for the end of their session', async () => {
  const client = await connect(connection)
  const received = new Promise<unknown>(resolve => client.once('error', resolve))
  await installation.stop()
  expect(await received).toMatchObject({ severity: 'FATAL', code: '57P01' })
})

test('if the thread ends unexpectedly, the installation reports it and exits with code 1', async () => {
  const preload = `process.on('worker', worker => {
    worker.on('message', ({ type }) => type === 'started' && setTimeout(() => worker.terminate(), 500))
  })`
  const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(preload)}`
  const exit = await home.command(['run'], { NODE_OPTIONS })
  expect(exit.code).toBe(1)
  expect(exit.stderr).toContain("the gateway's thread has ended; no database can be reached")
  expect(exit.stderr).toContain("espalier run: the gateway's thread has ended")
})
