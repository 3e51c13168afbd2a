/**
 * The home directory of a running installation is deleted. The installation never reports that it serves, and all its
 * processes end with a clear message.
 */
import { readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createApiClient, eventually, openToThisMachine } from './client.ts'
import { createHome, type Home, processTree } from './process.ts'

let home: Home
beforeEach(async () => {
  home = await createHome()
})
afterEach(() => home.remove())

test('deleting the home of a running installation ends the installation, and no database is reported as available', async () => {
  const running = await home.run()
  const api = createApiClient(running.api, running.token)
  const created = await api.create({ name: 'rootless', ip_allowlist: openToThisMachine })
  await eventually(
    'the database is available',
    async () => (await api.read(created.body.id)).body.status === 'available',
  )
  let errors = ''
  running.process.stderr?.on('data', chunk => {
    errors += chunk
  })
  const ended = new Promise<number | null>(resolve => running.process.once('exit', code => resolve(code)))
  const tree = await processTree(running.process.pid ?? 0)
  await rm(home.path, { recursive: true, force: true, maxRetries: 5 })

  // Once the API reports that it is not ready, it never reports ready again.
  const answers: number[] = []
  let isOver = false
  void ended.then(() => {
    isOver = true
  })
  while (!isOver) {
    answers.push(
      await fetch(`${running.api}/readyz`).then(
        ({ status }) => status,
        () => 0,
      ),
    )
  }
  const [first = 0] = answers
  expect([503, 0]).toContain(first)
  expect(answers).not.toContain(200)
  expect(await ended).toBe(1)
  expect(errors).toContain('was deleted or moved while Espalier runs: new data would be lost')
  expect(errors).toContain(home.path)
  const remaining = await Promise.all(tree.map(async pid => (await processTree(pid)).length > 1 || isRunning(pid)))
  expect(remaining).not.toContain(true)
}, 240_000)

/** A process that has ended but was not reaped yet does not count: the machine's first process reaps the last ones. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z /s.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}
