/** The command where an older Node started it: what the newer one is told by signal is what the older one was told. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const command = fileURLToPath(new URL('espalier.mjs', import.meta.url))
/** Makes a Node believe that it is an older one. */
const older = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.0.0'}})`

/** The first on PATH that is too old to run us itself. */
const tooOld = (process.env.PATH ?? '')
  .split(delimiter)
  .map(directory => join(directory, 'node'))
  .find(node => Number(/^v(\d+)/.exec(spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1]) < 24)

const started = 'an older Node of this machine starts ours'
if (tooOld === undefined) test.skip(started)
else
  test(started, () => {
    const { status, stdout, stderr } = spawnSync(tooOld, [command, '--help'], { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toContain('espalier')
  })

test('signals that the REST service reloads by reach it, and end nothing', { timeout: 60_000 }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-signals-'))
  const file = join(directory, 'rest.conf')
  writeFileSync(file, 'server-unix-socket = "server"\ndb-uri = "postgresql://nobody@127.0.0.1:1/none"\n')
  const child = spawn(process.execPath, ['--import', older, command, 'rest', file], { cwd: directory })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    log += text
  })
  const ended = new Promise<number | null>(resolve => child.once('exit', code => resolve(code)))
  const said = (text: string) => expect.poll(() => log, { timeout: 20_000 }).toContain(text)
  try {
    await said('could not read the database')
    for (const [index, signal] of (['SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const).entries()) {
      // A configuration that cannot be read is told of by each that reads it; SIGUSR1 reads the schema only.
      writeFileSync(file, `wrong-${index} = 1\n`)
      child.kill(signal)
      if (signal !== 'SIGUSR1') await said(`wrong-${index} (file, line 1)`)
    }
    expect(log).not.toContain('Debugger')
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  } finally {
    child.kill('SIGTERM')
    rmSync(directory, { recursive: true, force: true })
  }
})
