/** The message for a Postgres that fails while it checks a copy. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { runSingleUser } from './single-user.ts'

const folders: string[] = []
const path = process.env.PATH
afterEach(() => {
  process.env.PATH = path
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** Runs a shell script instead of Postgres. */
function run(script: string): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-single-user-'))
  folders.push(folder)
  const program = join(folder, 'postgres')
  writeFileSync(program, `#!/bin/sh\n${script}\n`)
  chmodSync(program, 0o700)
  process.env.PATH = `${folder}:${path}`
  return runSingleUser(folder, folder, 'template1', '')
}

test.each(['KILL', 'TERM', 'HUP', 'INT'])(
  'if another process ends Postgres with SIG%s, nothing is known about the data',
  signal => {
    expect(() => run(`kill -${signal} $$; sleep 5`)).toThrow(`Postgres was ended by SIG${signal}`)
  },
)

test('if Postgres ends by itself, also by a signal, this is a finding', () => {
  expect(run('exit 0')).toBeUndefined()
  expect(run("echo 'PANIC:  could not locate a valid checkpoint record' >&2; exit 1")).toMatch(/^PANIC: .*record$/)
  expect(run('kill -SEGV $$; sleep 5')).toMatch(/ended by SIGSEGV/)
})
