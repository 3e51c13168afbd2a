/** The log of a real Postgres on its volume, from the start command of its pod to the agent's reads. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { startCommand } from '../../operator/member/pod/start.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../../operator/pki/index.ts'
import { operatorCommonName, renderConfiguration } from '../../operator/postgres/configuration.ts'
import {
  configure,
  giveToPostgres,
  type Mounts,
  makeMounts,
  postgresEnvironment,
  prepareCommand,
} from '../../operator/postgres/testing/postgres.ts'
import { smallShape } from '../../operator/testing/samples.ts'
import { createForwarder } from '../agent/log/forward.ts'
import { keepLog } from '../agent/log/keep.ts'
import { readLog } from '../agent/log/read.ts'
import type { InstanceConfiguration } from '../configuration.ts'
import { logVariable } from './directory.ts'

const major = '18'
const MiB = 2 ** 20
const [id, other] = ['aaaaaaaa-0000-4000-8000-000000000000', 'bbbbbbbb-0000-4000-8000-000000000000']
const authority = createAuthority()
const certificate = issueServerCertificate(authority, { dnsNames: ['db.test.svc'] })
const configurationOf = (databaseId: string, more: Partial<InstanceConfiguration> = {}): InstanceConfiguration => ({
  ...{ databaseId, incarnation: 1, pgVersion: major, initialise: true },
  files: renderConfiguration(smallShape, major, databaseId),
  ...more,
})

const mounts: Mounts = makeMounts(configurationOf(id), authority, certificate)
afterAll(() => rmSync(mounts.root, { recursive: true, force: true }))
const directory = join(mounts.volume, 'espalier-log')

/** Prepares the volume like the init container of the newest template, or of an older template. */
function prepare(keepsLog = true): void {
  const [node, ...args] = prepareCommand(mounts)
  const environment = postgresEnvironment(major)
  const env = { ...environment.env, ...(keepsLog ? { [logVariable]: directory } : {}) }
  const { status, stderr } = spawnSync(node, args, { ...environment, env, encoding: 'utf8' })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
}

/** The address is unique to this test: its last two bytes are random. */
const host = `127.83.${[...crypto.getRandomValues(new Uint8Array(2))].map(byte => (byte % 254) + 1).join('.')}`
const port = 5432

/**
 * Starts Postgres like its container, and stops it after the action. If Postgres ends by itself, the run has finished.
 * Resolves to the container's output.
 */
async function run(
  isDone: (printed: string) => boolean | Promise<boolean>,
  signal: NodeJS.Signals = 'SIGINT',
): Promise<string> {
  const own = ['fsync=off', `listen_addresses=${host}`, `port=${port}`].flatMap(setting => ['-c', setting])
  const [shell = '', ...args] = startCommand(mounts.volume, ['postgres', '-D', join(mounts.volume, 'pgdata'), ...own])
  const child = spawn(shell, args, { ...postgresEnvironment(major), stdio: ['ignore', 'ignore', 'pipe'] })
  let printed = ''
  let isOver = false
  child.stderr.setEncoding('utf8').on('data', text => {
    printed += text
  })
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  void ended.then(() => {
    isOver = true
  })
  await expect.poll(async () => isOver || (await isDone(printed)), { timeout: 50_000 }).toBe(true)
  child.kill(signal)
  await ended
  return printed
}
const messages = async (owner = id) => {
  const everything = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY, most: 1000 }
  return (await readLog(directory, owner, everything)).entries.map(({ message }) => message)
}
const isReady = 'database system is ready to accept connections'
const count = (all: string[], message: string) => all.filter(each => each === message).length

const isLogged = async (times: number) => count(await messages(), isReady) === times
const isPrinted = (printed: string) => printed.includes(isReady)

test("is written to the volume over restarts, and no longer to the container's output", async () => {
  prepare()
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  const printed = await run(() => isLogged(1))
  expect(printed).not.toContain(isReady)
  expect(printed).toContain('redirecting log output')
  const first = await messages()
  expect(first.some(message => message.includes('log output'))).toBe(false)
  for (const name of readdirSync(directory)) expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600)
  prepare()
  await run(() => isLogged(2))
  expect((await messages()).slice(-first.length)).toEqual(first)
})

test('is printed by the start after a failed start, whose log would otherwise not be visible, and the next pod writes it to the volume again', async () => {
  prepare()
  const listener = createServer()
  await new Promise<void>(resolve => listener.listen({ host, port }, resolve))
  expect(await run(() => false)).not.toContain('could not bind')
  expect(await run(() => false)).toContain('could not bind')
  await new Promise(resolve => listener.close(resolve))
  expect(await run(isPrinted)).toContain(isReady)
  prepare()
  await run(() => isLogged(3))
})

test('is also written to the volume by the start after a kill', async () => {
  prepare()
  await run(() => isLogged(4), 'SIGKILL')
  await expect.poll(() => spawnSync('pgrep', ['-f', join(mounts.volume, 'pgdata')]).status).toBe(1)
  await run(() => isLogged(5))
})

test('stays within its limit under a flood, keeps the newest entries, and forwards the number of omitted bytes', async () => {
  prepare()
  const passedOn: string[] = []
  const stop = keepLog({
    ...{ path: directory, owner: id, mayWrite: () => true, log: () => {}, pauseMs: 20 },
    forwarder: createForwarder(join(mounts.root, 'position'), text => passedOn.push(text)),
    spaceOf: () => ({ size: 100 * MiB, free: 90 * MiB }),
  })
  const sizes = () => readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)
  const flood = async () => {
    const { cert, key } = issueClientCertificate(authority, { commonName: operatorCommonName })
    const ssl = { ca: authority.cert, cert, key, servername: 'db.test.svc' }
    const client = new pg.Client({ host, port, ssl, user: 'postgres', database: 'template1' })
    await client.connect()
    // File names only have seconds.
    for (let times = 0; times < 3; times++) {
      await client.query("DO $$ BEGIN FOR i IN 1..160 LOOP RAISE LOG '%', repeat('x', 100000); END LOOP; END $$")
      await client.query('SELECT pg_sleep(1.1)')
      await expect.poll(sizes).toBeLessThanOrEqual(16 * MiB)
    }
    await client.query("DO $$ BEGIN RAISE LOG 'the last of it'; END $$")
    await client.end()
    return true
  }
  await run(async () => (await isLogged(6)) && (await flood()))
  await expect.poll(() => passedOn.join('')).toContain('the last of it')
  stop()
  expect(await messages()).toContain('the last of it')
  expect(passedOn.join('')).toMatch(/\(\d+ bytes of the log are omitted here/)
})

test('is printed with a template of a release whose agents did not limit it', async () => {
  prepare(false)
  expect(await run(isPrinted)).toContain(isReady)
})

describe('of a copy', () => {
  const copyOf = (databaseId: string, incarnation: number) =>
    configure(mounts, configurationOf(databaseId, { incarnation, initialise: false, prepareCopy: true, copyOf: id }))

  test('that is a restore in place continues', async () => {
    const before = await messages()
    expect(before.length).toBeGreaterThan(10)
    copyOf(id, 2)
    prepare()
    expect(await messages()).toEqual(before)
  })

  test("that is another database starts again: no client reads its source's log", async () => {
    copyOf(other, 1)
    // An image of an older release adopted the copy.
    prepare(false)
    expect(await messages(other)).toEqual([])
    prepare()
    expect(readdirSync(directory).sort()).toEqual(['owner', 'prepared'])
    expect(readFileSync(join(directory, 'owner'), 'utf8')).toBe(other)
    expect(await messages()).toEqual([])
  })

  test('is created again if it is a link', () => {
    const elsewhere = join(mounts.root, 'elsewhere')
    mkdirSync(elsewhere)
    giveToPostgres(elsewhere)
    writeFileSync(join(elsewhere, 'owner'), other)
    giveToPostgres(join(elsewhere, 'owner'))
    rmSync(directory, { recursive: true })
    symlinkSync(elsewhere, directory)
    prepare()
    expect(readdirSync(directory).sort()).toEqual(['owner', 'prepared'])
    expect(existsSync(join(elsewhere, 'prepared'))).toBe(false)
  })
})
