/** User errors before anything runs: one clear line, exit code 1 (2 for wrong usage), and no stack. */

import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startInstallation } from '../embedded/installation.ts'
import { findFreeRange } from '../embedded/ports.ts'
import { createPostgresImages } from '../embedded/runtime/index.ts'
import { readSettings } from '../embedded/settings.ts'
import { createApiClient, openToThisMachine } from './client.ts'
import { createHome, type Exit, type Home, type Running } from './process.ts'

/** A running installation, for tests that only query it or that fail next to it. */
let home: Home
let running: Running
beforeAll(async () => {
  home = await createHome()
  running = await home.run()
})
afterAll(() => home?.remove())

/** A home directory that was never used. */
async function newHome(): Promise<Home> {
  const made = await createHome()
  onTestFinished(() => made.remove())
  return made
}

function expectOneLine(exit: Exit, code: number, text: string): void {
  expect(exit.stderr.trim().split('\n')).toHaveLength(1)
  expect(exit.stderr).toContain(text)
  expect(exit.stderr).not.toMatch(/\bat .+:\d+:\d+/)
  expect(exit.code).toBe(code)
}

describe('espalier run', () => {
  test('the port is in use', async () => {
    const home = await newHome()
    const port = Number(home.environment.ESPALIER_API_PORT)
    const server = createServer()
    await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
    expectOneLine(await home.command(['run']), 1, `port ${port} of 127.0.0.1 is taken: set ESPALIER_API_PORT`)
    await new Promise(resolve => server.close(resolve))
  })

  test('the home is not a writable directory', async () => {
    const home = await newHome()
    await writeFile(join(home.path, 'file'), '')
    expectOneLine(await home.command(['run'], { ESPALIER_HOME: join(home.path, 'file', 'home') }), 1, 'ESPALIER_HOME')
  })

  test.each(['/proc/espalier', '/dev/null', '/proc/1/espalier/home'])('the home is %s', async path => {
    const home = await newHome()
    expectOneLine(await home.command(['run'], { ESPALIER_HOME: path }), 1, 'ESPALIER_HOME')
  })

  test.runIf(process.getuid?.() !== 0)('the home belongs to another user', async () => {
    const home = await newHome()
    expectOneLine(await home.command(['run'], { ESPALIER_HOME: '/etc/espalier-e2e' }), 1, 'ESPALIER_HOME')
  })

  test('there is no Postgres for this machine', async () => {
    const home = await newHome()
    const images = createPostgresImages({ home: home.path, machineDirectories: [], packagesFrom: '/none.js' })
    const starting = startInstallation(readSettings(home.environment), pino({ level: 'silent' }), images)
    await expect(starting).rejects.toThrow(/^no Postgres 18 for linux-.+$/)
  })

  test('one page has the metrics of operator, API and gateway', async () => {
    const port = home.environment.ESPALIER_PORTS?.split('-').at(-1)
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    for (const name of ['espalier_reconcile_duration_seconds', 'espalier_build_info', 'espalier_gateway_routes'])
      expect(text.match(new RegExp(`^# TYPE ${name} `, 'gm'))).toHaveLength(1)
    const types = text.match(/^# TYPE \S+/gm) ?? []
    expect(new Set(types).size).toBe(types.length)
  })

  test('another process uses the same home', async () => {
    const { first, last } = await findFreeRange('127.0.0.1', 5)
    const elsewhere = {
      ESPALIER_API_PORT: String(first),
      ESPALIER_HTTPS_PORT: String(first + 1),
      ESPALIER_PORTS: `${first + 2}-${last}`,
    }
    expectOneLine(await home.command(['run'], elsewhere), 1, 'in use')
  })

  test.each([
    ['ESPALIER_API_PORT', 'http'],
    ['ESPALIER_HTTPS_PORT', 'https'],
    ['ESPALIER_PORTS', 'many'],
  ])('%s=%s', async (variable, value) => {
    const home = await newHome()
    expectOneLine(await home.command(['run'], { [variable]: value }), 1, variable)
  })

  test('an unknown flag, an unknown command', async () => {
    expectOneLine(await home.command(['run', '--fast']), 2, '--fast')
    expectOneLine(await home.command(['fly']), 2, 'fly')
  })

  test('SIGTERM stops the installation with exit code 0', async () => {
    const { process: child } = await (await newHome()).run()
    const exited = new Promise<number | null>(resolve => child.once('exit', resolve))
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
  })
})

describe('espalier token', () => {
  test('prints a token that a running installation accepts for its tenant', async () => {
    const { stdout } = await home.command(['token', '--tenant', 'acme', '--expires', '1h', '--claim', 'team="blue"'])
    const client = createApiClient(running.api, stdout.trim())
    expect((await client.call('GET', '/databases')).status).toBe(200)
  })

  test('without an installation, it reports this', async () => {
    expectOneLine(await (await newHome()).command(['token']), 1, 'make run')
  })

  test.each([
    ['--expires', 'never'],
    ['--claim', 'exp=1'],
    ['--tenant', ''],
  ])('%s %s is refused', async (flag, value) => {
    const exit = await home.command(['token', flag, value])
    expect(exit.code).toBeGreaterThan(0)
    expect(exit.stderr).toContain(flag)
  })
})

describe('espalier connect', () => {
  test('connects to a database by its name, as each of its roles, and gets Postgres’s error if not admitted', async () => {
    const client = createApiClient(running.api, running.token)
    const { body } = await client.create({ name: 'shop' })
    const environment = { XDG_CACHE_HOME: home.path }
    const roleOf = async (role: string) => {
      const { stdout } = await home.command(['connect', 'shop', '--role', role, '--print'], environment)
      // `pg` verifies the server with the file in the connection string.
      const postgres = new pg.Client(stdout.trim())
      await postgres.connect()
      return postgres.query('SELECT current_user AS role').finally(() => postgres.end())
    }
    await expect(roleOf('app')).rejects.toThrow(
      `no rule of the allowlist of shop-${body.id.slice(-8)} admits 127.0.0.1`,
    )
    await client.change(body.id, { ip_allowlist: openToThisMachine })
    for (const role of ['app', 'admin', 'app_read_only']) expect((await roleOf(role)).rows).toEqual([{ role }])
    expectOneLine(
      await home.command(['connect', 'store'], environment),
      3,
      'there is no database "store"; known databases: shop',
    )
    expectOneLine(await home.command(['connect', 'shop', '--tenant', 'acme'], environment), 3, 'the account has none')
  })
})

test.each(['run', 'token', 'connect', 'demo', 'api', 'operator', 'gateway'])('espalier %s --help', async command => {
  const exit = await home.command([command, '--help'])
  expect(exit).toMatchObject({ code: 0, stderr: '' })
  expect(exit.stdout).toContain(`espalier ${command}`)
})
