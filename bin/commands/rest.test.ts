import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { UsageError } from '../command.ts'
import rest from './rest.ts'

afterEach(() => vi.restoreAllMocks())

/** What the command prints before it ends with 0. */
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

test('--ready ends with 1 and says why where no service answers', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-rest-ready-'))
  const file = join(folder, 'rest.conf')
  writeFileSync(file, `admin-server-unix-socket = "${join(folder, 'admin')}"\n`)
  const said = vi.spyOn(console, 'error').mockReturnValue()
  try {
    expect(await rest.run(['--ready', file])).toBe(1)
    expect(said.mock.calls.flat()).toEqual([`not ready: ${join(folder, 'admin')} cannot be reached (ENOENT)`])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('only a service that has stopped ends its process after a time', async () => {
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
  [['--ready', '--dump-config'], '--dump-config and --ready exclude each other; --help tells more'],
  [['--schema-cache'], '--schema-cache is not a flag of this command; --help tells more'],
  [['--example', 'rest.conf'], '--example is not a flag of this command; --help tells more'],
  [['one.conf', 'two.conf'], 'one configuration file at most; --help tells more'],
])('%j is refused', async (args, message) => {
  await expect(rest.run(args)).rejects.toThrow(new UsageError(message))
})

test('a file that cannot be read is named', async () => {
  await expect(rest.run(['/nonexistent/rest.conf'])).rejects.toThrow(
    'the configuration file /nonexistent/rest.conf cannot be read (ENOENT)',
  )
})
