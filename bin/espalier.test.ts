/** Tests how the command starts: from an older Node and through a link, with forwarded signals and few modules. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { ensureTokenKey } from '../embedded/tokens.ts'
import { version } from '../server/version.ts'
import { freePort } from '../services/testing/postgres.ts'

const command = fileURLToPath(new URL('espalier.mjs', import.meta.url))
/** A module that makes Node report an older version. */
const older = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.0.0'}})`

/** The first Node on PATH that is too old to run the command. */
const tooOld = (process.env.PATH ?? '')
  .split(delimiter)
  .map(directory => join(directory, 'node'))
  .find(node => Number(/^v(\d+)/.exec(spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1]) < 24)

const startTitle = 'an older Node on PATH starts the Node of the packages'
if (tooOld === undefined) test.skip(startTitle)
else
  test(startTitle, () => {
    const { status, stdout, stderr } = spawnSync(tooOld, [command, '--help'], { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toContain('espalier')
  })

test('bin/espalier uses the Node of the packages, also through a link, whatever Node is on PATH', () => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-start-'))
  try {
    writeFileSync(join(directory, 'node'), '#!/bin/sh\nexit 9\n', { mode: 0o755 })
    symlinkSync(command.replace('.mjs', ''), join(directory, 'kubectl-espalier'))
    const env = { PATH: `${directory}:/usr/bin:/bin` }
    const { status, stdout, stderr } = spawnSync('kubectl-espalier', ['--help'], { env, encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toContain('espalier')
    expect(spawnSync('kubectl-espalier', ['--version'], { env, encoding: 'utf8' }).stdout).toBe(`${version}\n`)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

test('hints and help contain the name with which the program was started', () => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-named-'))
  try {
    for (const name of ['espalier', 'kubectl-espalier']) symlinkSync(command.replace('.mjs', ''), join(directory, name))
    const run = (program: string, ...args: string[]) => {
      const env = { PATH: `${directory}:/usr/bin:/bin`, HOME: directory }
      const { stdout, stderr } = spawnSync(program, args, { env, encoding: 'utf8', cwd: join(command, '../..') })
      return stdout + stderr
    }
    for (const [program, named] of [
      ['espalier', 'espalier'],
      ['kubectl-espalier', 'kubectl espalier'],
      ['bin/espalier', 'bin/espalier'],
    ] as const) {
      expect(run(program, '--help')).toContain(`\nUsage: ${named} COMMAND`)
      expect(run(program, 'db', '--help')).toContain(`Usage: ${named} db `)
      const ofConnect = run(program, 'connect', '--help')
      expect(ofConnect).toContain(`\nUsage: ${named} connect [NAME]`)
      expect(ofConnect).toContain(`(${named} branch checkout)`)
      expect(run(program, 'none')).toContain(`run ${named} --help to list the commands`)
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

test('reload signals for the REST service are forwarded, and stop no process', { timeout: 60_000 }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-signals-'))
  const file = join(directory, 'rest.conf')
  writeFileSync(file, 'server-unix-socket = "server"\ndb-uri = "postgresql://nobody@127.0.0.1:1/none"\n')
  const child = spawn(process.execPath, ['--import', older, command, 'rest', file], { cwd: directory })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    log += text
  })
  const ended = new Promise<number | null>(resolve => child.once('exit', code => resolve(code)))
  const logged = (text: string) => expect.poll(() => log, { timeout: 20_000 }).toContain(text)
  try {
    await logged('could not read the database')
    for (const [index, signal] of (['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const).entries()) {
      // Each process that reads an invalid configuration logs it; SIGUSR1 reloads only the schema.
      writeFileSync(file, `wrong-${index} = 1\n`)
      child.kill(signal)
      if (signal !== 'SIGUSR1') await logged(`wrong-${index} (file, line 1)`)
    }
    expect(log).not.toContain('Debugger')
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  } finally {
    child.kill('SIGTERM')
    rmSync(directory, { recursive: true, force: true })
  }
})

/** Returns the ids of the child processes, and of their child processes. */
function descendants(pid: number): number[] {
  const children = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .filter(name => {
      try {
        // The fields after the name in parentheses are state and parent.
        return readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1] === String(pid)
      } catch {
        return false
      }
    })
    .map(Number)
  return [...children, ...children.flatMap(descendants)]
}

function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

const accepts = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createConnection(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })

test.each([
  ['the launcher of the REST service with two workers', 'rest', 0],
  ['the first child of that launcher', 'rest', 1],
  ['the launcher of the tool server', 'mcp', 0],
  ['the launcher of the bridge', 'mcp-bridge', 0],
])('SIGKILL of %s leaves no process on the port', { timeout: 60_000 }, async (_, service, depth) => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-killed-'))
  const port = await freePort()
  const file = join(directory, 'configuration')
  const bridge = { server: { listen: `127.0.0.1:${port}`, auth: { type: 'none' } } }
  const http = { enabled: true, address: `127.0.0.1:${port}`, auth: { enabled: false } }
  const toolServer = { command: process.execPath, args: [command, 'mcp'], env: { ESPALIER_DB_PORT: '1' } }
  const lines = {
    rest: `server-host = "127.0.0.1"\nserver-port = ${port}\nserver-workers = 2\ndb-uri = "postgresql://nobody@127.0.0.1:1/none"\n`,
    mcp: JSON.stringify({ http, databases: [{ name: 'none', host: '127.0.0.1', port: 1 }] }),
    'mcp-bridge': JSON.stringify({ ...bridge, mcp_server: toolServer }),
  }
  writeFileSync(file, lines[service as keyof typeof lines])
  const arguments_ = { rest: [file], mcp: ['-config', file], 'mcp-bridge': ['-c', file] }[service] ?? []
  const child = spawn(process.execPath, ['--import', older, command, service, ...arguments_], { stdio: 'ignore' })
  let all: number[] = []
  try {
    await expect.poll(() => accepts(port), { timeout: 20_000 }).toBe(true)
    all = descendants(Number(child.pid))
    expect(all.length).toBeGreaterThanOrEqual(service === 'mcp' ? 1 : 2)
    process.kill(depth === 0 ? Number(child.pid) : Number(all[0]), 'SIGKILL')
    await expect.poll(() => all.filter(isRunning), { timeout: 15_000 }).toEqual([])
    expect(await accepts(port)).toBe(false)
  } finally {
    child.kill('SIGKILL')
    for (const pid of all.filter(isRunning)) process.kill(pid, 'SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  }
})

/** A module that prints the names of all loaded modules when the process exits. */
const listing = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  import { writeSync } from 'node:fs'
  const urls = []
  registerHooks({ load: (url, context, next) => (urls.push(url), next(url, context)) })
  process.on('exit', () => writeSync(1, JSON.stringify([...urls, ...process.moduleLoadList])))`)}`

test('a client command loads neither zod nor fetch, because loading them takes longer than starting Node', async () => {
  const home = mkdtempSync(join(tmpdir(), 'espalier-loaded-'))
  try {
    await ensureTokenKey(home)
    const { stdout, stderr } = spawnSync(process.execPath, ['--import', listing, command, 'db', 'list'], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: home, ESPALIER_HOME: home, ESPALIER_API_PORT: String(await freePort()) },
    })
    expect(stderr).toContain('cannot reach the API at http://127.0.0.1:')
    expect(stderr).toContain('; start the embedded installation with `make run`')
    const loaded: string[] = JSON.parse(stdout)
    expect(loaded.filter(url => url.includes('/cli/commands/'))).toHaveLength(1)
    expect(loaded).toContain('NativeModule _http_client')
    expect(loaded.filter(url => /\/node_modules\/zod\/|undici\/undici|internal\/http2\/core/.test(url))).toEqual([])
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
})
