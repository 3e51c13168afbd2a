/** The HAProxy example in docs/rest.md is valid without a warning, and forwards requests. */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sendRequest, until } from '../testing/client.ts'
import { freePort, startPostgres } from '../testing/postgres.ts'
import { startService } from './testing/service.ts'

const program = process.env.ESPALIER_HAPROXY || 'haproxy'
const isThere = spawnSync(program, ['-v']).status === 0
const page = readFileSync(new URL('../../docs/rest.md', import.meta.url), 'utf8')
const example = (/^ {4}# haproxy\.cfg\n(?: {4}.*\n|\n)*/m.exec(page)?.[0] ?? '').replace(/^ {4}/gm, '')

if (!isThere) test.skip('the example of a proxy: needs haproxy on this machine', () => {})
else
  test("HAProxy accepts the example, strips the API's path and limits rates", async ({ onTestFinished }) => {
    const postgres = await startPostgres('17')
    onTestFinished(() => postgres.stop())
    await postgres.run('CREATE ROLE anon; CREATE TABLE notes AS SELECT 1 AS id; GRANT SELECT ON notes TO anon')
    const service = await startService(postgres.uri('postgres'), { 'db-anon-role': 'anon' })
    onTestFinished(() => service.stop())
    const port = await freePort()
    const file = join(postgres.directory, 'haproxy.cfg')
    const changes: [string, string][] = [
      [':443 ssl crt /etc/haproxy/api.pem alpn h2,http/1.1', `127.0.0.1:${port}`],
      ['127.0.0.1:3000 port 3001', `127.0.0.1:${service.port} port ${service.adminPort}`],
      ['127.0.0.1:3010 port 3011', `127.0.0.1:${await freePort()} port ${await freePort()}`],
    ]
    for (const [text] of changes) expect(example).toContain(text)
    writeFileSync(
      file,
      changes.reduce((text, [from, to]) => text.replace(from, to), example),
    )
    const check = spawnSync(program, ['-c', '-dW', '-f', file], { encoding: 'utf8' })
    expect([check.stderr, check.status]).toEqual([expect.not.stringMatching(/ALERT|WARNING/), 0])
    const child = spawn(program, ['-db', '-f', file], { stdio: 'ignore' })
    onTestFinished(() => {
      child.kill('SIGKILL')
    })
    const status = (path: string) =>
      sendRequest(port, path).then(
        answer => answer.status,
        () => 0,
      )
    await until(async () => (await status('/notes')) === 200)
    expect((await sendRequest(port, '/rest/notes?id=eq.1')).text).toBe('[{"id":1}]')
    const many = await Promise.all(Array.from({ length: 250 }, () => status('/rest/notes')))
    expect(new Set(many)).toEqual(new Set([200, 429]))
  })
