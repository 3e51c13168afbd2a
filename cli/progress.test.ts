/** Tests the progress line in a pseudo-terminal and without a terminal. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Cli, startCli } from './testing/cli.ts'

const espalier = fileURLToPath(new URL('../bin/espalier.mjs', import.meta.url))
let cli: Cli
beforeAll(async () => {
  cli = await startCli()
})
afterAll(() => cli?.close())

/** Runs a command in a terminal of 60 columns, and returns the bytes that the terminal receives. */
async function inTerminal(args: readonly string[]): Promise<string> {
  const words = [process.execPath, espalier, ...args].map(word => JSON.stringify(word)).join(', ')
  const script = `import os, pty, fcntl, termios, struct, sys
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 60, 0, 0))
    os.execv(${JSON.stringify(process.execPath)}, [${words}])
while True:
    try: data = os.read(fd, 4096)
    except OSError: break
    if not data: break
    sys.stdout.buffer.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`
  const child = spawn('python3', ['-c', script], { env: { ...cli.environment, TERM: 'xterm', LANG: 'C.UTF-8' } })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', part => {
    text += part
  })
  await once(child, 'close')
  return text
}

const hasPython = spawnSync('python3', ['--version']).status === 0
const inPty = 'the progress line in a terminal: needs python3'
if (!hasPython) test.skip(inPty)
else
  test(inPty, async () => {
    const text = await inTerminal(['db', 'create', 'shop', '--wait'])
    // The line is drawn, redrawn in place, and erased before the result.
    expect(text.startsWith('\r\u001b[Kshop is creating')).toBe(true)
    expect(text).toContain(' (0 s)')
    expect(text).toContain('\r\u001b[Kshop is available\r\n')
    expect(text.split('\r\n')[0]).not.toContain('\n')
    // On a terminal, a good status in a table is green.
    expect(await inTerminal(['db', 'list'])).toContain('\u001b[32mavailable\u001b[39m')
  })

test('without a terminal each message is one line, and nothing is coloured', async () => {
  const { err } = await cli.run('db create other --wait')
  expect(err).toBe('other is creating\nNo address may connect yet: espalier allow me other\n')
  expect((await cli.run('db list')).out).not.toContain('\u001b')
})

test('a wait that reaches its timeout has the exit code 5', async () => {
  await cli.run('db create slow --wait -q')
  // The fake operator does not suspend databases, so the wait reaches its timeout.
  const message = 'slow is still suspending after 1 s; the operation continues: run espalier tasks to see its state'
  expect(await cli.run('suspend slow --wait --timeout 1')).toEqual({
    code: 5,
    out: '',
    err: expect.stringMatching(new RegExp(`espalier suspend: ${message}\\n$`)),
  })
})
