import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { UsageError } from '../command.ts'
import gateway from './gateway.ts'

async function temporary(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'espalier-gateway-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  return directory
}

test('configuration writes the files that HAProxy starts with', async () => {
  const directory = join(await temporary(), 'run')
  const flags = ['--directory', directory, '--ports', '30000-30099', '--proxy-protocol-from', '10.1.2.3/8, 192.0.2.1']
  expect(await gateway.run(['configuration', ...flags])).toBe(0)
  const text = await readFile(join(directory, 'haproxy.cfg'), 'utf8')
  expect(text).toContain('bind 0.0.0.0:30000-30099\n')
  expect(text).toContain('{ src 10.0.0.0/8 192.0.2.1/32 }')
  for (const map of ['allow.map', 'ports.map', 'state.map'])
    expect(await readFile(join(directory, map), 'utf8')).toBe('')
})

describe('errors name the flag', () => {
  const valid = ['configuration', '--directory', '/nonexistent/x', '--ports', '30000-30099']
  const agent = ['--socket', '/run/x', '--certificate', '/nonexistent/c', '--key', '/nonexistent/k', '--ports', '1-2']
  test.each<[string[], RegExp]>([
    [['configuration', '--ports', '1-2'], /--directory is required/],
    [['configuration', '--directory', '/x'], /--ports is required/],
    [[...valid.slice(0, 4), '2-1'], /--ports: must be FIRST-LAST/],
    [[...valid.slice(0, 4), '0-1'], /--ports: must be FIRST-LAST/],
    [[...valid.slice(0, 4), '1-65536'], /--ports: must be FIRST-LAST/],
    [[...valid, '--operations-port', '30001'], /--operations-port: must not be one of --ports/],
    [[...valid, '--threads', '0'], /--threads: must be a whole number from 1 to 64/],
    [[...valid, '--max-connections', '1e3'], /--max-connections: must be/],
    [[...valid, '--proxy-protocol-from', 'fd00::/8'], /--proxy-protocol-from: "fd00::\/8" is not an IPv4 CIDR block/],
    [[...valid, '--host', '::'], /--host: must be an IPv4 address/],
    [['configuration', '--directory', '/a b\nglobal', '--ports', '1-2'], /--directory: may contain only/],
    [['drain'], /--socket is required/],
    [[], /--socket is required/],
    [[...agent, '--http', 'here'], /--http: must be HOST:PORT/],
    [agent, /--certificate: cannot read c \(ENOENT\)/],
    [['configure'], /configure/],
  ])('%j', async (args, message) => {
    const failure = await gateway.run(args).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(UsageError)
    expect((failure as UsageError).message).toMatch(message)
  })
})

test('drain returns at once if HAProxy is not running', async () => {
  expect(await gateway.run(['drain', '--socket', join(await temporary(), 'haproxy.sock')])).toBe(0)
})
