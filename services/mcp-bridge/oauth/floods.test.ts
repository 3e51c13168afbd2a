/** Floods by strangers: who fills the state with login pages and registrations that nobody uses takes room from himself alone. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hashPassword } from '../../authentication/password.ts'
import type { Answer } from '../../testing/client.ts'
import { startTestBridge, type TestBridge } from '../testing/bridge.ts'
import {
  formHeaders,
  formOf,
  openPage,
  password,
  pkce,
  redirectUri,
  request,
  sendPage,
  tokensFor,
} from '../testing/oauth.ts'

const folder = mkdtempSync(join(tmpdir(), 'espalier-floods-'))
let bridge: TestBridge
beforeAll(async () => {
  const users = [{ username: 'alice', password_hash: await hashPassword(password) }]
  const clients = [{ client_id: 'known', redirect_uris: [redirectUri] }]
  bridge = await startTestBridge({
    folder,
    server: { auth: { type: 'oauth' }, trusted_proxies: ['127.0.0.1/32'] },
    oauth_server: { allow_dynamic_registration: true, builtin: { users }, clients },
  })
})
afterAll(async () => {
  await bridge.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** As from another address. */
const from = (address: string): TestBridge => ({
  ...bridge,
  ask: (path, asked = {}) => bridge.ask(path, { ...asked, headers: { ...asked.headers, 'X-Forwarded-For': address } }),
})

const registering = (by: TestBridge): Promise<Answer> =>
  by.ask('/register', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [redirectUri] }),
  })

/** What a version before this one, or many addresses, have left. */
function fill(kind: string, rows: number): void {
  const database = new DatabaseSync(join(folder, 'oauth-state.sqlite'))
  const insert = database.prepare('INSERT INTO oauth_records (kind, key, value, expires_at) VALUES (?, ?, ?, ?)')
  database.exec('BEGIN')
  for (let at = 0; at < rows; at++) insert.run(kind, `flood ${at}`, '{}', Date.now() + 500_000)
  database.exec('COMMIT')
  database.close()
}

test('a state full of pages that nobody uses has room for one more, and who was shown it signs in, whatever others do', async () => {
  fill('transaction', 20_000)
  const user = from('192.0.2.7')
  const page = await openPage(user, request('known', pkce()))
  expect(page.status).toBe(200)
  const other = from('198.51.100.1')
  const asked = `/oauth/authorize?${formOf(request('known', pkce()))}`
  for (let round = 0; round < 6; round++)
    await Promise.all(Array.from({ length: 40 }, () => other.ask(asked, { headers: formHeaders })))
  const signedIn = await sendPage(user, page, { username: 'alice', password, decision: 'allow' })
  expect(signedIn.headers.location).toMatch(/[?&]code=/)
})

test('a state full of clients that nobody uses has room for one more, which stays, whatever others register', async () => {
  fill('client', 10_000)
  const user = from('192.0.2.8')
  const registered = await registering(user)
  expect(registered.status).toBe(201)
  const other = from('198.51.100.2')
  for (let round = 0; round < 11; round++) await Promise.all(Array.from({ length: 20 }, () => registering(other)))
  const page = await openPage(user, request(JSON.parse(registered.text).client_id, pkce()))
  expect(page.status).toBe(200)
})

test('while many log in at once, tokens are checked all the same', async () => {
  const { access_token: token } = await tokensFor(from('192.0.2.9'), 'known')
  const users = Array.from({ length: 12 }, (_, at) => from(`203.0.113.${at}`))
  const pages = await Promise.all(users.map(user => openPage(user, request('known', pkce()))))
  let done = 0
  const logins = users.map(async (user, at) => {
    const page = pages[at]
    if (page !== undefined) await sendPage(user, page, { username: 'alice', password, decision: 'allow' })
    done += 1
  })
  // So that all of them have come.
  await setTimeout(20)
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  expect((await bridge.post(ping, { Authorization: `Bearer ${token}` })).status).toBe(200)
  expect(done).toBeLessThan(6)
  await Promise.all(logins)
})
