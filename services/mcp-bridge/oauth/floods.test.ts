/**
 * Floods by unauthenticated clients. A client that fills the state with unused login pages and registrations must evict
 * only its own records.
 */
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

/** Sends requests from another address. */
const from = (address: string): TestBridge => ({
  ...bridge,
  send: (path, authorizePath = {}) =>
    bridge.send(path, { ...authorizePath, headers: { ...authorizePath.headers, 'X-Forwarded-For': address } }),
})

const registering = (by: TestBridge): Promise<Answer> =>
  by.send('/register', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [redirectUri] }),
  })

/** Adds records as an older version, or many addresses, would create them. */
function fill(kind: string, rows: number): void {
  const database = new DatabaseSync(join(folder, 'oauth-state.sqlite'))
  const insert = database.prepare('INSERT INTO oauth_records (kind, key, value, expires_at) VALUES (?, ?, ?, ?)')
  database.exec('BEGIN')
  for (let at = 0; at < rows; at++) insert.run(kind, `flood ${at}`, '{}', Date.now() + 500_000)
  database.exec('COMMIT')
  database.close()
}

test('a state full of unused pages accepts another page, and its user can sign in during a flood', async () => {
  fill('transaction', 20_000)
  const user = from('192.0.2.7')
  const page = await openPage(user, request('known', pkce()))
  expect(page.status).toBe(200)
  const other = from('198.51.100.1')
  const authorizePath = `/oauth/authorize?${formOf(request('known', pkce()))}`
  for (let round = 0; round < 6; round++)
    await Promise.all(Array.from({ length: 40 }, () => other.send(authorizePath, { headers: formHeaders })))
  const signedIn = await sendPage(user, page, { username: 'alice', password, decision: 'allow' })
  expect(signedIn.headers.location).toMatch(/[?&]code=/)
})

test('a state full of unused clients accepts another client, which a flood does not evict', async () => {
  fill('client', 10_000)
  const user = from('192.0.2.8')
  const registered = await registering(user)
  expect(registered.status).toBe(201)
  const other = from('198.51.100.2')
  for (let round = 0; round < 11; round++) await Promise.all(Array.from({ length: 20 }, () => registering(other)))
  const page = await openPage(user, request(JSON.parse(registered.text).client_id, pkce()))
  expect(page.status).toBe(200)
})

test('checks tokens quickly while many users log in', async () => {
  const { access_token: token } = await tokensFor(from('192.0.2.9'), 'known')
  const users = Array.from({ length: 12 }, (_, at) => from(`203.0.113.${at}`))
  const pages = await Promise.all(users.map(user => openPage(user, request('known', pkce()))))
  let done = 0
  const logins = users.map(async (user, at) => {
    const page = pages[at]
    if (page !== undefined) await sendPage(user, page, { username: 'alice', password, decision: 'allow' })
    done += 1
  })
  // Waits until all logins have arrived.
  await setTimeout(20)
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  expect((await bridge.post(ping, { Authorization: `Bearer ${token}` })).status).toBe(200)
  expect(done).toBeLessThan(6)
  await Promise.all(logins)
})
