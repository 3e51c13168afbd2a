/** Behaviour that all subcommands share. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { logLevel } from './command.ts'
import run from './commands/run.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test('an unknown log level is refused before the start, and the error lists the known levels', async () => {
  vi.stubEnv('ESPALIER_LOG', 'loud')
  vi.stubEnv('ESPALIER_HOME', join(tmpdir(), `espalier-never-${crypto.randomUUID()}`))
  await expect(run.run([])).rejects.toThrow(/^ESPALIER_LOG must be one of trace, .*, silent, not "loud"$/)
})

test('the default log level is used if ESPALIER_LOG is empty', () => {
  vi.stubEnv('ESPALIER_LOG', '')
  expect(logLevel('warn')).toBe('warn')
  vi.stubEnv('ESPALIER_LOG', 'debug')
  expect(logLevel('warn')).toBe('debug')
})
