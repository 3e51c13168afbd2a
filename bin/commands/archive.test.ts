/** Tests `espalier archive` as a process: upload and download with curl, key checks and wrong flags. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { identityOf } from '../../archive/names.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { freePort } from '../../operator/postgres/testing/postgres.ts'

const authority = createAuthority()
const incarnation = { databaseId: '0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001', number: 1 }
const key = Buffer.alloc(32, 7).toString('base64')

let directory: string
const file = (name: string, text: string): string => {
  const path = join(directory, name)
  writeFileSync(path, text)
  return path
}
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-archive-'))
  const server = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  const client = issueClientCertificate(authority, { commonName: 'espalier-archive', uris: [identityOf(incarnation)] })
  for (const [name, { cert, key }] of Object.entries({ server, client })) {
    file(`${name}.crt`, cert)
    file(`${name}.key`, key)
  }
  file('ca.crt', authority.cert)
  file('keys', `${key}\n`)
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

type Run = { child: ChildProcess; output: () => string }
function espalier(args: string[]): Run {
  let output = ''
  const child = spawn(process.execPath, ['bin/espalier.mjs', 'archive', ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', chunk => (output += chunk))
  onTestFinished(() => void child.kill('SIGKILL'))
  return { child, output: () => output }
}
const serverFlags = (store: string, port: number, keys = 'keys') => [
  ...['--store', store, '--listen', `127.0.0.1:${port}`, '--key-file', join(directory, keys)],
  ...['--certificate', join(directory, 'server.crt'), '--key', join(directory, 'server.key')],
  ...['--client-authority', join(directory, 'ca.crt')],
]
const ended = async ({ child, output }: Run) => {
  const [code] = await once(child, 'close')
  return { code, output: output() }
}

test('a file is archived with curl and read again, and SIGTERM stops the server', async () => {
  const [port, health] = [await freePort(), await freePort()]
  const store = join(directory, 'store')
  const abandoned = join(store, incarnation.databaseId, '.partial-of-a-killed-writer')
  mkdirSync(dirname(abandoned), { recursive: true })
  writeFileSync(abandoned, 'half a segment')
  utimesSync(abandoned, 0, 0)
  const run = espalier([...serverFlags(`file://${store}`, port), '--health', String(health)])
  await expect.poll(run.output, { timeout: 20_000 }).toContain('the archive server is ready')
  const wal = file('segment', 'some WAL '.repeat(1000))
  const digest = execFileSync('openssl', ['dgst', '-sha256', '-binary', wal]).toString('base64')
  const url = `https://127.0.0.1:${port}/v1/${incarnation.databaseId}/1/wal/000000010000000000000001`
  const tls = ['--cacert', 'ca.crt', '--cert', 'client.crt', '--key', 'client.key'].map(part =>
    part.startsWith('--') ? part : join(directory, part),
  )
  const curl = (...args: string[]) => execFileSync('curl', ['-sS', '--fail', ...tls, ...args, url]).toString()
  curl('-T', wal, '-H', `content-digest: sha-256=:${digest}:`)
  expect(curl()).toBe('some WAL '.repeat(1000))
  expect((await fetch(`http://127.0.0.1:${health}/readyz`)).status).toBe(200)
  expect(await (await fetch(`http://127.0.0.1:${health}/metrics`)).text()).toContain(
    'espalier_archive_stored_bytes_total 9000',
  )
  expect(readdirSync(store).sort()).toEqual([incarnation.databaseId, 'key-check'])
  expect(run.output()).not.toContain(key)
  expect(existsSync(abandoned)).toBe(false)
  run.child.kill('SIGTERM')
  expect(await ended(run)).toMatchObject({ code: 0 })
})

test('a wrong key is refused at the start, and nothing is written', async () => {
  const store = join(directory, 'other-store')
  const port = await freePort()
  const first = espalier(serverFlags(`file://${store}`, port))
  await expect.poll(first.output, { timeout: 20_000 }).toContain('the archive server is ready')
  first.child.kill('SIGTERM')
  await ended(first)
  const other = Buffer.alloc(32, 8).toString('base64')
  file('other-keys', `${other}\n`)
  const { code, output } = await ended(espalier(serverFlags(`file://${store}`, port, 'other-keys')))
  expect(code).toBe(1)
  expect(output).toMatch(
    /was created with the key [0-9a-f]{16}, which is not configured\. Espalier stores nothing there/,
  )
  file('both-keys', `${other}\n${key}\n`)
  const both = espalier(serverFlags(`file://${store}`, port, 'both-keys'))
  await expect.poll(both.output, { timeout: 20_000 }).toContain('the archive server is ready')
  rmSync(join(store, 'key-check'))
  writeFileSync(join(store, 'something'), '')
  both.child.kill('SIGTERM')
  await ended(both)
  const unknown = await ended(espalier(serverFlags(`file://${store}`, port)))
  expect(unknown).toMatchObject({ code: 1 })
  expect(unknown.output).toContain('has objects, such as something, but no key-check')
})

test.each([
  ['no certificate', ['--store', 'file:///x'], '--certificate is required'],
  ['another kind of store', ['--store', 'ftp://x'], '--store must be s3://BUCKET/PREFIX or file:///DIRECTORY'],
  ['a key that is too short', ['--key-file', 'short'], '--key-file: line 2 must be 32 bytes in base64'],
  ['an address without a port', ['--listen', 'x'], '--listen must be HOST:PORT'],
])('%s is refused with one line', async (_, args, message) => {
  const short = file('short', `${key}\nc2hvcnQ=\n`)
  const wanted = args.map(arg => (arg === 'short' ? short : arg))
  const run = espalier(args[1] === 'file:///x' ? wanted : [...serverFlags('file:///nothing', 0), ...wanted])
  const { code, output } = await ended(run)
  expect(code).toBe(2)
  expect(output.trim()).toBe(`espalier archive: ${message}`)
})
