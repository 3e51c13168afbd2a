/** Tests the candidates of completion, and the scripts in real shells. */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import branch from '../commands/branch.ts'
import db from '../commands/db.ts'
import { processIo } from '../io.ts'
import { type Cli, runCommand, startCli } from '../testing/cli.ts'
import { wantedOf } from './candidates.ts'
import { completionScripts, shells } from './scripts.ts'

const run = { io: processIo(), rest: [], exitCode: 0 }
const inDb = (...words: string[]) => wantedOf(db(run), words)
const inBranch = (...words: string[]) => wantedOf(branch(run), words)

describe('candidates', () => {
  test('are the subcommands, then names of databases', () => {
    expect(inDb('')).toEqual({ kind: 'words', words: ['list', 'get', 'create', 'connect', 'delete'] })
    expect(inDb('get', '')).toEqual({ kind: 'names', of: 'database', database: undefined })
    expect(inDb('create', '')).toEqual({ kind: 'words', words: [] })
    expect(inDb('get', 'shop', '')).toEqual({ kind: 'words', words: [] })
  })

  test('are the branches of the database on the command line', () => {
    expect(inDb('connect', 'shop', '--branch', '')).toEqual({ kind: 'names', of: 'branch', database: 'shop' })
    expect(inBranch('delete', '-d', 'shop', '')).toEqual({ kind: 'names', of: 'branch', database: 'shop' })
    expect(inBranch('checkout', '')).toEqual({ kind: 'names', of: 'branch', database: undefined })
    expect(inBranch('checkout', '-d', '')).toEqual({ kind: 'names', of: 'database', database: undefined })
  })

  test('are the values of an option, or the options', () => {
    expect(inDb('connect', '--role', '')).toEqual({ kind: 'words', words: ['app', 'admin', 'app_read_only'] })
    expect(inDb('create', 'x', '--size', '')).toMatchObject({ of: 'size' })
    expect(inDb('delete', '--')).toMatchObject({ words: expect.arrayContaining(['--yes', '--force', '--help']) })
  })
})

describe('the hidden command __complete', () => {
  let cli: Cli
  beforeAll(async () => {
    cli = await startCli()
    await cli.run('db create shop --wait -q')
    await cli.run(['branch', 'create', 'Odd name', '-d', 'shop', '--wait', '-q'])
  })
  afterAll(() => cli?.close())

  test('offers only names without spaces and special characters', async () => {
    expect((await cli.run(['__complete', '--', 'db', 'get', ''])).out).toBe('shop\n')
    expect((await cli.run(['__complete', '--', 'connect', 'sh'])).out).toBe('shop\n')
    expect((await cli.run(['__complete', '--', 'db', 'get', 'x'])).out).toBe('')
    expect((await cli.run(['__complete', '--', 'sql', 'shop', '-b', ''])).out).toMatch(/^shop-[0-9a-f]{8}\n$/)
    expect((await cli.run(['__complete', '--', 'tas'])).out).toBe('tasks\n')
    expect((await cli.run(['__complete', '--', 'db', 'create', 'x', '--size', ''])).out).toContain('small\n')
  })

  test('reads names from the cache for some seconds', async () => {
    const calls = () => cli.api.audit.length
    await cli.run(['__complete', '--', 'db', 'get', ''])
    const before = calls()
    expect((await cli.run(['__complete', '--', 'db', 'get', ''])).out).toBe('shop\n')
    expect(calls()).toBe(before)
  })
})

test('prints nothing and exits after a second if the API does not respond', async () => {
  const server = createServer(() => {}).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const environment = { ESPALIER_API_URL: url, ESPALIER_TOKEN: 'x', XDG_CACHE_HOME: '/nonexistent' }
  const start = performance.now()
  expect(await runCommand(['__complete', '--', 'db', 'get', ''], { environment })).toEqual({
    code: 0,
    out: '',
    err: '',
  })
  expect(performance.now() - start).toBeLessThan(5000)
  server.closeAllConnections()
  server.close()
})

describe('scripts', () => {
  let directory: string
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'espalier-completion-'))
    // A fake espalier: it writes its arguments to a file, and prints three candidates.
    const program = `#!/bin/sh\nprintf '[%s]' "$@" > ${directory}/words\nprintf 'shop\\nshop-2\\nother\\n' | grep "^$(eval "echo \\\${$#}")"\n`
    writeFileSync(join(directory, 'espalier'), program)
    chmodSync(join(directory, 'espalier'), 0o755)
    for (const shell of shells) writeFileSync(join(directory, shell), completionScripts[shell])
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))
  const environment = () => ({ PATH: `${directory}:/usr/bin:/bin`, HOME: directory })

  test('bash completes names, and passes the words to espalier', () => {
    const script = `. ${directory}/bash; COMP_WORDS=(espalier db get sh); COMP_CWORD=3; _espalier; echo "\${COMPREPLY[*]}"; complete -p espalier; cat ${directory}/words`
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8', env: environment() })
    expect(stderr).toBe('')
    expect(stdout).toBe('shop shop-2\ncomplete -F _espalier espalier\n[__complete][--][db][get][sh]')
  })

  test('bash does not run ./espalier of the current folder', () => {
    const script = `cd ${directory}/cloned; . ../bash; COMP_WORDS=(./espalier db get sh); COMP_CWORD=3; _espalier; echo "\${COMPREPLY[*]}"`
    mkdirSync(join(directory, 'cloned'))
    writeFileSync(join(directory, 'cloned', 'espalier'), `#!/bin/sh\necho owned > ${directory}/owned\n`, {
      mode: 0o755,
    })
    const { stdout } = spawnSync('bash', ['--norc', '-c', script], { encoding: 'utf8', env: environment() })
    expect(existsSync(join(directory, 'owned'))).toBe(false)
    expect(stdout).toBe('shop shop-2\n')
  })

  const zsh = spawnSync('zsh', ['--version']).status === 0
  const inZsh = 'completion in zsh: needs zsh on this machine'
  if (!zsh) test.skip(inZsh)
  else
    test(inZsh, () => {
      const script = `compdef() { echo "compdef $*"; }; compadd() { shift; print -l -- "\${(@P)1}"; }
        . ${directory}/zsh; words=(espalier db get sh); CURRENT=4; _espalier; cat ${directory}/words`
      const { stdout, stderr } = spawnSync('zsh', ['-f', '-c', script], { encoding: 'utf8', env: environment() })
      expect(stderr).toBe('')
      expect(stdout).toBe(
        'compdef _espalier espalier espalier.mjs kubectl-espalier\nshop\nshop-2\n[__complete][--][db][get][sh]',
      )
    })

  const fish = spawnSync('fish', ['--version']).status === 0
  const inFish = 'completion in fish: needs fish on this machine'
  if (!fish) test.skip(inFish)
  else
    test(inFish, () => {
      for (const other of ['espalier.mjs', 'kubectl-espalier']) symlinkSync('espalier', join(directory, other))
      for (const word of ['espalier', './espalier', 'espalier.mjs', 'kubectl-espalier']) {
        const script = `cd /; source ${directory}/fish; complete -C '${word} db get sh'; cat ${directory}/words`
        const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', script], {
          encoding: 'utf8',
          env: environment(),
        })
        expect(stderr).toBe('')
        expect(stdout).toBe('shop\nshop-2\n[__complete][--][db][get][sh]')
      }
    })
})
