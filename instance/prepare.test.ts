import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { type PgVersion, pgVersions } from '../crds/index.ts'
import { createAuthority, issueServerCertificate } from '../operator/pki/index.ts'
import { renderConfiguration } from '../operator/postgres/configuration.ts'
import {
  configure,
  giveToPostgres,
  type Mounts,
  makeMounts,
  postgresEnvironment,
  prepareCommand,
  runPostgres,
} from '../operator/postgres/testing/postgres.ts'
import { smallShape } from '../operator/testing/samples.ts'
import { isSoak } from '../operator/testing/soak.ts'
import { configurationFiles, type InstanceConfiguration } from './configuration.ts'
import { availableLibraries } from './libraries.ts'
import { exitCodes } from './refusal.ts'

const databaseId = 'aaaaaaaa-0000-4000-8000-000000000000'
const authority = createAuthority()
const certificate = issueServerCertificate(authority, { dnsNames: ['db.test.svc'] })
const configurationOf = (major: PgVersion): InstanceConfiguration => ({
  databaseId,
  incarnation: 1,
  pgVersion: major,
  initialise: true,
  files: renderConfiguration(smallShape, major, databaseId),
})

/** The root of a prepared volume. */
const complete = ['espalier-configuration', 'espalier-identity.json', 'pgdata']

const made: Mounts[] = []
afterEach(() => {
  for (const { root } of made.splice(0)) rmSync(root, { recursive: true, force: true })
})
function mountsFor(major: PgVersion): Mounts {
  const mounts = makeMounts(configurationOf(major), authority, certificate)
  made.push(mounts)
  return mounts
}

type Run = { code: number | null; stderr: string; stdout: string }
/** Runs prepare. `node` are options of Node itself; `path` is searched before the version's binaries. */
function prepare(
  mounts: Mounts,
  major: PgVersion,
  extra: { args?: string[]; node?: string[]; path?: string } = {},
): Run {
  const [node, ...args] = prepareCommand(mounts)
  const environment = postgresEnvironment(major)
  const env = { ...environment.env, PATH: `${extra.path ?? ''}:${environment.env.PATH}` }
  const result = spawnSync(node, [...(extra.node ?? []), ...args, ...(extra.args ?? [])], {
    ...environment,
    env,
    encoding: 'utf8',
  })
  return { code: result.status, stderr: result.stderr, stdout: result.stdout }
}

const identityOf = ({ volume }: Mounts) => JSON.parse(readFileSync(join(volume, 'espalier-identity.json'), 'utf8'))

/** Every file below a directory, except files that depend on a running server. */
const listing = (directory: string): string[] => readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()

async function starts(mounts: Mounts, major: PgVersion): Promise<boolean> {
  const server = await runPostgres(mounts, { major })
  await server.kill('SIGINT')
  return /database system is shut down/.test(server.log())
}

/** Encoding, locale, checksums and the like, as Postgres itself reports. */
function describeDatabase({ volume }: Mounts, major: PgVersion): string {
  const query = `SELECT 'found: ' || concat_ws(' ', pg_encoding_to_char(encoding), datlocprovider, datcollate, datctype,
    current_setting('data_checksums'), current_setting('default_text_search_config'), upper('é'), 'a' < 'B') AS f
    FROM pg_database WHERE datname = 'postgres'`
  const { stdout } = spawnSync('postgres', ['--single', '-D', join(volume, 'pgdata'), 'postgres'], {
    ...postgresEnvironment(major),
    encoding: 'utf8',
    input: `${query.replaceAll(/\n\s+/g, ' ')}\n`,
  })
  return stdout
}

describe.each(pgVersions)('Postgres %s', major => {
  test('an empty volume is initialised once, and starts', async () => {
    const mounts = mountsFor(major)
    mkdirSync(join(mounts.volume, 'lost+found'), { mode: 0o700 })
    const first = prepare(mounts, major)
    expect(first).toEqual({ code: 0, stderr: '', stdout: 'initialised a new data directory\n' })
    expect(identityOf(mounts)).toMatchObject({ databaseId, incarnation: 1, pgVersion: major })
    expect(readdirSync(mounts.volume).sort()).toEqual([
      'espalier-configuration',
      'espalier-identity.json',
      'lost+found',
      'pgdata',
    ])
    expect(await starts(mounts, major)).toBe(true)
    expect(describeDatabase(mounts, major)).toContain(
      `found: UTF8 ${major === '16' ? 'c' : 'b'} C.UTF-8 C.UTF-8 on pg_catalog.english É f`,
    )

    const before = listing(mounts.volume)
    const control = readFileSync(join(mounts.volume, 'pgdata/global/pg_control'))
    expect(prepare(mounts, major)).toEqual({ code: 0, stderr: '', stdout: '' })
    expect(listing(mounts.volume)).toEqual(before)
    expect(readFileSync(join(mounts.volume, 'pgdata/global/pg_control'))).toEqual(control)
  })
})

describe('the configuration', () => {
  const major = '18'
  const postgresConf = ({ volume }: Mounts) => readFileSync(join(volume, 'pgdata/postgresql.conf'), 'utf8')
  const withSettings = (text: string): InstanceConfiguration => {
    const before = configurationOf(major)
    return { ...before, files: { ...before.files, 'postgresql.conf': before.files['postgresql.conf'] + text } }
  }

  test('is read from the mounted directory, and copied if an older operator mounts only instance.json', async () => {
    const mounts = mountsFor(major)
    expect(prepare(mounts, major).code).toBe(0)
    expect(postgresConf(mounts)).toContain(`include '${mounts.configuration}/postgresql.conf'`)
    for (const name of configurationFiles) rmSync(join(mounts.configuration, name))
    expect(prepare(mounts, major).code).toBe(0)
    expect(postgresConf(mounts)).not.toContain('include')
    expect(readFileSync(join(mounts.volume, 'pgdata/pg_hba.conf'), 'utf8')).toContain('cert map=espalier')
    expect(await starts(mounts, major)).toBe(true)
  })

  test.each([
    ['an invalid value', "work_mem = 'lots'\n", 'work_mem'],
    ['an unknown setting', 'no_such_setting = 1\n', 'no_such_setting'],
    ['invalid syntax', '= =\n', 'syntax error'],
  ])('that Postgres refuses for %s does not prevent a start: it uses the previous one', async (_, text, why) => {
    const mounts = mountsFor(major)
    expect(prepare(mounts, major).code).toBe(0)
    configure(mounts, withSettings(text))
    expect(prepare(mounts, major).code).toBe(0)
    expect(postgresConf(mounts)).toMatch(new RegExp(`espalier.refused = '.*${why}`))
    expect(postgresConf(mounts)).toContain(`include '${mounts.volume}/espalier-configuration/postgresql.conf'`)
    expect(await starts(mounts, major)).toBe(true)

    configure(mounts, withSettings("work_mem = '5MB'\n"))
    expect(prepare(mounts, major).code).toBe(0)
    expect(postgresConf(mounts)).not.toContain('espalier.refused')
    const accepted = readFileSync(join(mounts.volume, 'espalier-configuration/postgresql.conf'), 'utf8')
    expect(accepted).toContain("work_mem = '5MB'")
  })

  test('that was never valid is reported by Postgres', () => {
    const mounts = mountsFor(major)
    configure(mounts, withSettings("work_mem = 'lots'\n"))
    expect(prepare(mounts, major).code).toBe(0)
    expect(existsSync(join(mounts.volume, 'espalier-configuration'))).toBe(false)
    expect(postgresConf(mounts)).not.toContain('espalier.refused')
  })

  test('loads libraries that the image has, and no missing ones', async () => {
    const mounts = mountsFor(major)
    configure(mounts, { ...configurationOf(major), preload: ['pg_stat_statements', 'no_such_library'] })
    expect(prepare(mounts, major).code).toBe(0)
    expect(postgresConf(mounts)).toContain("shared_preload_libraries = 'pg_stat_statements'\n")
    expect(await starts(mounts, major)).toBe(true)
  })
})

test.each([
  ['Debian', 'usr/lib/postgresql/18/lib', 'usr/share/postgresql/18/extension', true],
  ['the npm package', 'usr/lib/postgresql/18/lib/postgresql', 'usr/lib/postgresql/18/share/postgresql/extension', true],
  ['an image without contrib', 'usr/lib/postgresql/18/lib', undefined, false],
])('libraries are found in the layout of %s', (_, libraries, extensions, isThere) => {
  const root = mountsFor('18').root
  const put = (directory: string, name: string) => {
    mkdirSync(join(root, directory), { recursive: true })
    writeFileSync(join(root, directory, name), '')
  }
  put('usr/lib/postgresql/18/bin', 'postgres')
  put(libraries, 'gathers.so')
  if (extensions !== undefined) put(extensions, 'gathers.control')
  const path = `/nowhere:${join(root, 'usr/lib/postgresql/18/bin')}`
  expect(availableLibraries(['gathers'], '18', path)).toEqual(isThere ? ['gathers'] : [])
})

describe('killed', () => {
  const major = '18'
  /** Kills the process right after its n-th change of the file system. */
  const preload = `
    import fs from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    let left = Number(process.env.KILL_AFTER)
    for (const name of ['mkdirSync', 'writeFileSync', 'fsyncSync', 'renameSync', 'unlinkSync', 'chmodSync']) {
      const original = fs[name]
      fs[name] = (...args) => {
        try { return original(...args) } finally { if (--left === 0) process.kill(process.pid, 'SIGKILL') }
      }
    }
    syncBuiltinESMExports()
  `

  /** A directory with an initdb that ends at once, because this test is about the steps before and after initdb. */
  function quickInitdb(root: string, template: string): string {
    const directory = join(root, 'quick')
    mkdirSync(directory, { recursive: true, mode: 0o755 })
    const script = `#!/bin/sh
for argument; do case "$argument" in --pgdata=*) cp -R '${template}/.' "\${argument#--pgdata=}" ;; esac; done
`
    writeFileSync(join(directory, 'initdb'), script, { mode: 0o755 })
    return directory
  }

  /** `make soak` tests all changes. Each step consists of several changes, so a third of them covers each step. */
  const stride = isSoak ? 1 : 3

  function sweep(reset: (mounts: Mounts) => void, check: (mounts: Mounts) => void): number {
    const mounts = mountsFor(major)
    const template = join(mounts.root, 'template')
    mkdirSync(join(template, 'global'), { recursive: true, mode: 0o755 })
    const files = ['PG_VERSION', 'global/pg_control', ...configurationFiles, 'postgresql.auto.conf']
    for (const name of files)
      writeFileSync(
        join(template, name),
        `${major}
`,
        { mode: 0o644 },
      )
    const path = quickInitdb(mounts.root, template)
    writeFileSync(join(mounts.root, 'preload.mjs'), preload)
    const environment = postgresEnvironment(major)
    const [node, ...args] = prepareCommand(mounts)

    for (let n = 1; ; n += stride) {
      reset(mounts)
      const killed = spawnSync(node, ['--import', join(mounts.root, 'preload.mjs'), ...args], {
        ...environment,
        env: { ...environment.env, PATH: `${path}:${environment.env.PATH}`, KILL_AFTER: String(n) },
        encoding: 'utf8',
      })
      if (killed.signal !== 'SIGKILL') expect(killed).toMatchObject({ status: 0, stderr: '' })
      expect(prepare(mounts, major, { path })).toMatchObject({ code: 0, stderr: '' })
      expect(listing(join(mounts.volume, 'pgdata'))).toEqual(listing(template))
      expect(
        readdirSync(mounts.volume)
          .filter(name => name !== 'espalier-copy')
          .sort(),
      ).toEqual(complete)
      check(mounts)
      if (killed.signal !== 'SIGKILL') return n - 1
    }
  }

  test('at every change while it initialises, the next run completes it', async () => {
    const points = sweep(
      mounts => {
        for (const name of readdirSync(mounts.volume)) rmSync(join(mounts.volume, name), { recursive: true })
      },
      mounts => {
        expect(identityOf(mounts)).toMatchObject({ databaseId, incarnation: 1 })
        const started = readFileSync(join(mounts.volume, 'pgdata/postgresql.conf'), 'utf8')
        expect(started).toContain(`hba_file = '${mounts.configuration}/pg_hba.conf'`)
      },
    )
    expect(points).toBeGreaterThan(20)
  })

  test('at every change while it adopts a copy, the next run completes it', () => {
    let initialised = false
    const points = sweep(
      mounts => {
        if (!initialised) {
          configure(mounts, configurationOf(major))
          expect(prepare(mounts, major, { path: join(mounts.root, 'quick') }).code).toBe(0)
          initialised = true
        }
        const identity = { ...identityOf(mounts), incarnation: 1 }
        writeFileSync(join(mounts.volume, 'espalier-identity.json'), JSON.stringify(identity))
        writeFileSync(join(mounts.volume, 'pgdata/postmaster.pid'), '1\n')
        writeFileSync(join(mounts.volume, 'pgdata/postgresql.auto.conf'), "fsync = 'off'\n")
        // The source of the copy was itself a copy, and was opened.
        rmSync(join(mounts.volume, 'espalier-copy'), { recursive: true, force: true })
        mkdirSync(join(mounts.volume, 'espalier-copy'))
        for (const name of ['opened.conf', 'opened_hba.conf'])
          writeFileSync(join(mounts.volume, 'espalier-copy', name), 'its own')
        for (const name of ['espalier-copy', 'espalier-copy/opened.conf', 'espalier-copy/opened_hba.conf'])
          giveToPostgres(join(mounts.volume, name))
        writeFileSync(join(mounts.volume, 'espalier-configuration/postgresql.conf'), 'its own')
        configure(mounts, { ...configurationOf(major), incarnation: 2, initialise: false, prepareCopy: true })
      },
      mounts => {
        // The two links lead into empty directories: the copy is closed.
        expect(readdirSync(join(mounts.volume, 'espalier-copy'), { recursive: true }).sort()).toEqual([
          ...['opened.conf', 'opened.conf.d', 'opened_hba.conf', 'opened_hba.conf.d', 'pg_hba.conf'],
        ])
        const started = readFileSync(join(mounts.volume, 'pgdata/postgresql.conf'), 'utf8')
        expect(started).toContain("max_logical_replication_workers = '0'")
        expect(started).toContain(`hba_file = '${mounts.volume}/espalier-copy/pg_hba.conf'`)
        const accepted = readFileSync(join(mounts.volume, 'espalier-configuration/postgresql.conf'), 'utf8')
        expect(accepted).not.toContain('its own')
        expect(identityOf(mounts)).toMatchObject({ databaseId, incarnation: 2 })
        expect(existsSync(join(mounts.volume, 'pgdata/postmaster.pid'))).toBe(false)
        expect(readFileSync(join(mounts.volume, 'pgdata/postgresql.auto.conf'), 'utf8')).toBe('')
      },
    )
    expect(points).toBeGreaterThan(5)
  }, 300_000)

  test.each(['base/1/PG_VERSION', 'base/5/PG_VERSION'])(
    'while the real initdb continues without its parent, after writing %s, the next run is not disturbed',
    async file => {
      const mounts = mountsFor(major)
      const [node, ...args] = prepareCommand(mounts)
      const child = spawn(node, args, { ...postgresEnvironment(major), stdio: 'ignore' })
      const ended = new Promise(resolve => child.once('exit', resolve))
      const isThere = () => readdirSync(mounts.volume).some(name => existsSync(join(mounts.volume, name, file)))
      await expect.poll(isThere, { interval: 2, timeout: 30_000 }).toBe(true)
      child.kill('SIGKILL')
      await ended
      expect(prepare(mounts, major)).toMatchObject({ code: 0, stderr: '' })
      expect(await starts(mounts, major)).toBe(true)
    },
  )
})

describe('refused', () => {
  const major = '17'
  /** A volume in the state after initialisation; the test starts no Postgres on it. */
  function initialised(): Mounts {
    const mounts = mountsFor(major)
    const identity = { databaseId, incarnation: 1, initialisedAt: '2026-01-01T00:00:00Z', pgVersion: major }
    const write = (name: string, text: string) => {
      writeFileSync(join(mounts.volume, name), text)
      giveToPostgres(join(mounts.volume, name))
    }
    for (const name of ['pgdata', 'pgdata/global']) {
      mkdirSync(join(mounts.volume, name), { mode: 0o700 })
      giveToPostgres(join(mounts.volume, name))
    }
    write('espalier-identity.json', JSON.stringify(identity))
    write('pgdata/PG_VERSION', `${major}\n`)
    write('pgdata/global/pg_control', 'x')
    write('pgdata/postmaster.pid', '1\n')
    configure(mounts, { ...configurationOf(major), initialise: false })
    return mounts
  }

  test('with one line, a code and a termination message', () => {
    const mounts = initialised()
    rmSync(join(mounts.volume, 'pgdata'), { recursive: true })
    configure(mounts, configurationOf(major))
    const message = join(mounts.volume, 'termination')
    const { code, stderr } = prepare(mounts, major, { args: ['--termination-message', message] })
    expect(code).toBe(exitCodes['data-lost'])
    expect(stderr).toMatch(/^espalier instance: data-lost: the volume was initialised at .*\n$/)
    expect(JSON.parse(readFileSync(message, 'utf8'))).toEqual({
      reason: 'data-lost',
      message: 'the volume was initialised at 2026-01-01T00:00:00Z, and its data are missing',
    })
    expect(existsSync(join(mounts.volume, 'pgdata'))).toBe(false)
  })

  test('for an empty volume that may not be initialised', () => {
    const mounts = mountsFor(major)
    configure(mounts, { ...configurationOf(major), initialise: false })
    expect(prepare(mounts, major).code).toBe(exitCodes['volume-empty'])
    expect(readdirSync(mounts.volume)).toEqual([])
  })

  test('but never removes a lock file at an ordinary start', () => {
    const mounts = initialised()
    expect(prepare(mounts, major)).toEqual({ code: 0, stderr: '', stdout: '' })
    expect(readFileSync(join(mounts.volume, 'pgdata/postmaster.pid'), 'utf8')).toBe('1\n')
  })

  test('removes the group permissions that Kubernetes set', () => {
    const mounts = initialised()
    chmodSync(join(mounts.volume, 'pgdata'), 0o2770)
    expect(prepare(mounts, major).code).toBe(0)
    expect(statSync(join(mounts.volume, 'pgdata')).mode & 0o7777).toBe(0o700)
  })

  test('for a volume that cannot be written', () => {
    const mounts = mountsFor(major)
    chmodSync(mounts.volume, 0o500)
    expect(prepare(mounts, major)).toMatchObject({ code: exitCodes['volume-unwritable'] })
    chmodSync(mounts.volume, 0o700)
  })

  test('for a key that Postgres would refuse', () => {
    const mounts = mountsFor(major)
    chmodSync(join(mounts.tls, 'tls.key'), 0o644)
    const { code, stderr } = prepare(mounts, major)
    expect(code).toBe(exitCodes.tls)
    expect(stderr).toContain('has mode 0644')
    rmSync(join(mounts.tls, 'ca.crt'))
    expect(prepare(mounts, major).stderr).toContain('ca.crt')
    expect(readdirSync(mounts.volume)).toEqual([])
  })

  test('for a full disk and for another failure of initdb, and no files remain that could be mistaken for data', () => {
    const mounts = mountsFor(major)
    const path = join(mounts.root, 'failing')
    mkdirSync(path, { mode: 0o755 })
    const failing = (line: string) =>
      writeFileSync(join(path, 'initdb'), `#!/bin/sh\necho '${line}' >&2\nexit 1\n`, { mode: 0o755 })
    failing('initdb: error: could not write file "x": No space left on device')
    expect(prepare(mounts, major, { path })).toMatchObject({ code: exitCodes['disk-full'] })
    failing('initdb: error: invalid locale settings')
    expect(prepare(mounts, major, { path })).toEqual({
      code: exitCodes['initdb-failed'],
      stdout: '',
      stderr: 'espalier instance: initdb-failed: initdb failed: initdb: error: invalid locale settings\n',
    })
    expect(prepare(mounts, major).code).toBe(0)
    expect(readdirSync(mounts.volume).sort()).toEqual(complete)
  })

  test('for an image of another version', () => {
    const mounts = mountsFor(major)
    expect(prepare(mounts, '16').code).toBe(exitCodes['initdb-failed'])
    expect(existsSync(join(mounts.volume, 'pgdata'))).toBe(false)
  })

  test.each([[[]], [['destroy']], [['prepare']], [['prepare', '--data', '/x', '--unknown']]])(
    'for arguments %j',
    args => {
      const [node, entry = ''] = prepareCommand(mountsFor(major))
      const { status, stderr } = spawnSync(node, [entry, ...args], { ...postgresEnvironment(major), encoding: 'utf8' })
      expect(status).toBe(exitCodes.usage)
      expect(stderr).toContain('Usage: espalier instance prepare')
    },
  )

  test('but not with a copy of only its folder', () => {
    const mounts = mountsFor(major)
    const alone = join(mounts.root, 'alone')
    cpSync(import.meta.dirname, alone, { recursive: true })
    const { status } = spawnSync(
      prepareCommand(mounts)[0],
      [join(alone, 'main.ts'), '--help'],
      postgresEnvironment(major),
    )
    expect(status).toBe(0)
  })
})
