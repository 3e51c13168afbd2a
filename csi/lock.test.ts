/**
 * Two driver processes on one pool. The second waits, reports the holder of the lock, and touches nothing. It serves
 * once the first has ended.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const command = join(import.meta.dirname, '../bin/espalier.mjs')

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' && address !== null ? address.port : 0
}

type DriverProcess = { child: ChildProcess; log(): string; port: number }

function temporary(): string {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-csi-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** `espalier csi` on a pool, stopped at the end of the test. */
async function startDriverProcess(directory: string): Promise<DriverProcess> {
  const port = await freePort()
  const args = ['--node', 'here', '--pool', join(directory, 'pool'), '--socket', join(directory, 'csi.sock')]
  const child = spawn(process.execPath, [command, 'csi', ...args, '--health', `${port}`])
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', text => {
      log += text
    })
  }
  return { child, log: () => log, port }
}

const untilLogged = ({ log }: DriverProcess, text: string) => expect.poll(log, { timeout: 60_000 }).toContain(text)
const statusOf = async ({ port }: DriverProcess, path: string): Promise<number> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).status
const serving = '"msg":"the driver is ready"'
const waiting = 'another driver uses this pool; waiting until it ends'

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  test(`a second driver waits until the first has ended by ${signal}, then serves`, { timeout: 120_000 }, async () => {
    const directory = temporary()
    const first = await startDriverProcess(directory)
    await untilLogged(first, serving)
    // An unfinished entry of the first driver, and the socket that kubelet uses.
    const unfinished = join(directory, 'pool/volumes/.new-0123456789abcdef')
    mkdirSync(unfinished)
    const { ino } = statSync(join(directory, 'csi.sock'))

    const second = await startDriverProcess(directory)
    await untilLogged(second, waiting)
    expect(second.log()).toContain(`process ${first.child.pid} of `)
    expect(await statusOf(second, '/healthz')).toBe(200)
    expect(await statusOf(second, '/readyz')).toBe(503)
    expect(second.log()).not.toContain(serving)
    expect(existsSync(unfinished)).toBe(true)
    expect(statSync(join(directory, 'csi.sock')).ino).toBe(ino)

    first.child.kill(signal)
    await untilLogged(second, serving)
    expect(await statusOf(second, '/readyz')).toBe(200)
    expect(readdirSync(join(directory, 'pool/volumes'))).toEqual([])
    expect(existsSync(join(directory, 'csi.sock'))).toBe(true)
  })
}

test('a waiting driver stops at a signal, and does not affect the other driver', { timeout: 120_000 }, async () => {
  const directory = temporary()
  const first = await startDriverProcess(directory)
  await untilLogged(first, serving)
  const second = await startDriverProcess(directory)
  await untilLogged(second, waiting)
  second.child.kill('SIGTERM')
  const [code] = await once(second.child, 'exit')
  expect(code).toBe(0)
  expect(await statusOf(first, '/readyz')).toBe(200)
  expect(existsSync(join(directory, 'csi.sock'))).toBe(true)
})

test('drivers on different pools do not wait for each other', { timeout: 120_000 }, async () => {
  const [one, other] = [await startDriverProcess(temporary()), await startDriverProcess(temporary())]
  await untilLogged(one, serving)
  await untilLogged(other, serving)
  expect(other.log()).not.toContain(waiting)
})
