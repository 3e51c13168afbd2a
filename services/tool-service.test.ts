/** The shared modules do not depend on a service. A second service uses them with its own keys, errors and names. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SignJWT } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Answer, sendRequest, until } from './testing/client.ts'
import { startPostgres, type TestPostgres } from './testing/postgres.ts'

const secret = 'a passphrase of tests, longer than 32 characters'
let postgres: TestPostgres
let port: number
let adminPort: number
let stop = async (): Promise<unknown> => undefined
let signal = (_: NodeJS.Signals): unknown => undefined

beforeAll(async () => {
  postgres = await startPostgres('17')
  await postgres.run('CREATE ROLE tool LOGIN; CREATE ROLE reader; GRANT reader TO tool; CREATE TABLE notes (id int)')
  const file = join(postgres.directory, 'tool.json')
  writeFileSync(file, JSON.stringify({ database: postgres.uri('tool'), secret, body_limit: 100 }))
  const child = spawn(process.execPath, [fileURLToPath(new URL('./testing/tool-service.ts', import.meta.url)), file])
  const ended = once(child, 'exit')
  child.stderr.pipe(process.stderr)
  signal = name => child.kill(name)
  stop = async () => {
    child.kill('SIGTERM')
    return await ended
  }
  const [line] = await Promise.race([once(child.stdout, 'data'), ended])
  ;[{ port }, { port: adminPort }] = JSON.parse(String(line))
  await until(async () => (await sendRequest(adminPort, '/ready')).status === 200)
})
afterAll(async () => {
  expect(await stop()).toEqual([0, null])
  await postgres?.stop()
})

/** Each call uses a new connection, so that every worker receives some calls. */
async function call(path: string, claims: Record<string, unknown> | undefined, body = ''): Promise<Answer> {
  const token = claims && (await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(secret)))
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` }
  return sendRequest(port, path, { method: 'POST', headers, body }, new Agent())
}
const statusAndMessage = ({ status, text }: Answer) => [status, JSON.parse(text).error?.message]

test("the service verifies a token, queries Postgres as the token's role, and formats all errors itself", async () => {
  const answer = await call('/query', { role: 'reader' }, 'SELECT current_user, 6 * 7')
  expect([answer.status, answer.headers.server, answer.text]).toEqual([200, 'tool/1', '[["reader","42"]]'])
  expect(statusAndMessage(await call('/query', undefined))).toEqual([403, 'a role is required'])
  const expired = await call('/query', { role: 'reader', exp: 1 })
  expect(statusAndMessage(expired)).toEqual([401, 'token refused: expired'])
  expect(expired.headers['www-authenticate']).toBe('Bearer error="invalid_token", error_description="claims"')
  const denied = await call('/query', { role: 'reader' }, 'SELECT FROM notes')
  expect(statusAndMessage(denied)).toEqual([422, '42501: permission denied for table notes'])
  expect(statusAndMessage(await call('/query', { role: 'reader' }, 'x'.repeat(101)))).toEqual([413, 'body too large'])
  expect((await call('/query', { role: 'reader' }, 'SELECT 1')).text).toBe('[["1"]]')
})

test('the workers aggregate metrics, show the configuration without its secret, and reload the schema', async () => {
  await until(async () => (await sendRequest(adminPort, '/metrics')).text.includes('tool_calls_total 6\n'))
  expect((await sendRequest(adminPort, '/config')).text).toContain('workers = 2\nsecret = "********"\n')
  expect((await call('/tables', { role: 'reader' })).text).toBe('["notes"]')
  await postgres.run('CREATE TABLE links (id int)')
  signal('SIGHUP')
  const see = async () => (await call('/tables', { role: 'reader' })).text
  await until(async () => (await Promise.all(Array.from({ length: 8 }, see))).every(text => text.includes('links')))
})
