import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { UsageError } from '../command.ts'
import rest from './rest.ts'

afterEach(() => vi.restoreAllMocks())

/** Runs the command, expects the exit code 0, and returns the output. */
async function printed(...args: string[]): Promise<string> {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  expect(await rest.run(args)).toBe(0)
  return write.mock.calls.map(([text]) => String(text)).join('')
}

test('--dump-config prints the configuration without its secrets', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-rest-command-'))
  const file = join(folder, 'rest.conf')
  writeFileSync(
    file,
    'db-uri = "postgres://web:a-password-0123@127.0.0.1/shop"\njwt-secret = "a-secret-of-thirty-two-characters"\ndb-max-rows = 42\n',
  )
  try {
    const text = await printed('--dump-config', file)
    expect(text).toMatch(/^db-max-rows = 42$/m)
    expect(text).not.toMatch(/a-password|a-secret/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('--example prints a file with the defaults', async () => {
  expect(await printed('--example')).toContain('db-uri')
})

test('--ready exits with 1 and the reason if no service responds', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-rest-ready-'))
  const file = join(folder, 'rest.conf')
  writeFileSync(file, `admin-server-unix-socket = "${join(folder, 'admin')}"\n`)
  const logged = vi.spyOn(console, 'error').mockReturnValue()
  try {
    expect(await rest.run(['--ready', file])).toBe(1)
    expect(logged.mock.calls.flat()).toEqual([`not ready: ${join(folder, 'admin')} cannot be reached (ENOENT)`])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('--example and --dump-config do not start the exit timeout', async () => {
  const exit = vi.spyOn(process, 'exit').mockImplementation(code => {
    throw new Error(`the process would have ended with ${code}`)
  })
  vi.useFakeTimers()
  try {
    await printed('--example')
    await printed('--dump-config')
    vi.advanceTimersByTime(60_000)
    expect(exit).not.toHaveBeenCalled()
  } finally {
    vi.useRealTimers()
  }
})

test.each([
  [['--ready', '--dump-config'], '--dump-config and --ready cannot be combined; see --help'],
  [['--schema-cache'], 'unknown flag --schema-cache; see --help'],
  [['--example', 'rest.conf'], 'unknown flag --example; see --help'],
  [['one.conf', 'two.conf'], 'only one configuration file is allowed; see --help'],
])('%j is refused', async (args, message) => {
  await expect(rest.run(args)).rejects.toThrow(new UsageError(message))
})

test('the error names a file that cannot be read', async () => {
  await expect(rest.run(['/nonexistent/rest.conf'])).rejects.toThrow(
    'the configuration file /nonexistent/rest.conf cannot be read (ENOENT)',
  )
})
