/** Tests the shell script that starts Postgres, with a fake Postgres that prints its arguments. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startCommand } from './start.ts'

type Volume = { prepared?: boolean; lockFile?: boolean; log?: boolean; freeSpace?: string }

/** Returns the arguments of the first and second start of Postgres on the given volume. */
function starts({ prepared = true, lockFile = false, log = true, freeSpace = 'echo 1000000 4096' }: Volume): string[] {
  const root = mkdtempSync(join(tmpdir(), 'espalier-start-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const [volume, programs] = [join(root, 'a volume'), join(root, 'programs')]
  for (const directory of [join(volume, 'pgdata'), programs]) mkdirSync(directory, { recursive: true })
  if (log) mkdirSync(join(volume, 'espalier-log'))
  if (log && prepared) writeFileSync(join(volume, 'espalier-log', 'prepared'), '')
  if (lockFile) writeFileSync(join(volume, 'pgdata', 'postmaster.pid'), '1')
  const program = (name: string, text: string) =>
    writeFileSync(join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  program('postgres', 'echo "$$ $*"')
  program('stat', freeSpace)
  const [shell = '', ...args] = startCommand(volume, ['postgres', '-D', volume])
  const env = { PATH: `${programs}:/usr/bin:/bin` }
  return [1, 2].map(() => {
    const { stdout, stderr, pid } = spawnSync(shell, args, { env, encoding: 'utf8' })
    expect(stderr).toBe('')
    // The shell was replaced by the fake Postgres (exec).
    expect(stdout).toMatch(new RegExp(`^${pid} `))
    return stdout.slice(`${pid} -D ${volume}`.length).trim()
  })
}
const [retained, printed] = ['', '-c logging_collector=off']

test.each<[string, Volume, string[]]>([
  ['is on the volume, and is printed after a start that failed without a crash', {}, [retained, printed]],
  ['is on the volume after Postgres was killed', { lockFile: true }, [retained, retained]],
  [
    'is on the volume if only the lock file shows that Postgres ran',
    { prepared: false, lockFile: true },
    [retained, retained],
  ],
  ['is printed if its directory does not exist', { log: false }, [printed, printed]],
  ['is printed if the volume is almost full', { freeSpace: 'echo 8191 4096', lockFile: true }, [printed, printed]],
  [
    'is on the volume if there is just enough space',
    { freeSpace: 'echo 8192 4096', lockFile: true },
    [retained, retained],
  ],
  ['is printed if the free space is unknown', { freeSpace: 'exit 1', lockFile: true }, [printed, printed]],
])('the log %s', (_, volume, expected) => {
  expect(starts(volume)).toEqual(expected)
})

test('the start command sets its signal handlers first: until then the kernel drops signals to process 1', () => {
  const [, , script = ''] = startCommand('/data', ['postgres'])
  expect(script.split('\n')[0]).toBe("trap 'exit 143' TERM INT")
})
