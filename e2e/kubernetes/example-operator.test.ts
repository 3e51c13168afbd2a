/**
 * The example of controller/README.md on a real cluster: two instances run, one is active, and the other takes over.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readCluster } from '../kind/cluster.ts'
import { readSettings } from '../kind/settings.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'

const example = join(import.meta.dirname, '../../controller/example/operator.ts')
const [from, to] = ['example-from', 'example-to']
let provider: KindProvider
let kubeconfig: string
const running: ChildProcess[] = []

const kubectl = (...args: string[]) => provider.kubectl(args)
const start = (): ChildProcess => {
  const child = spawn(process.execPath, [example], {
    env: { ...process.env, KUBECONFIG: kubeconfig },
    stdio: 'ignore',
  })
  running.push(child)
  return child
}
const colour = () =>
  kubectl('get', 'configmap', 'settings', '-n', to, '-o', 'jsonpath={.data.colour}').catch(() => undefined)
const patched = (value: string) =>
  kubectl(
    'patch',
    'configmap',
    'settings',
    '-n',
    from,
    '--type=merge',
    '-p',
    JSON.stringify({ data: { colour: value } }),
  )

beforeAll(async () => {
  provider = await startKind()
  kubeconfig = (await readCluster(readSettings(process.env))).kubeconfig
  for (const namespace of [from, to]) await kubectl('create', 'namespace', namespace)
  await kubectl('create', 'configmap', 'settings', '-n', from, '--from-literal=colour=red')
  await kubectl('annotate', 'configmap', 'settings', '-n', from, `example.dev/copy-to=${to}`)
})
afterAll(async () => {
  for (const child of running) child.kill('SIGTERM')
  await kubectl('delete', 'lease', 'example-operator', '-n', 'default', '--ignore-not-found')
  for (const namespace of [from, to]) await kubectl('delete', 'namespace', namespace, '--ignore-not-found')
  await provider?.stop()
})

test('it copies, follows changes, and continues in another process when the leader is killed', async () => {
  const first = start()
  await expect.poll(colour, { timeout: 60_000 }).toBe('red')
  start()
  await patched('green')
  await expect.poll(colour, { timeout: 60_000 }).toBe('green')
  first.kill('SIGKILL')
  await patched('blue')
  await expect.poll(colour, { timeout: 60_000 }).toBe('blue')
  await kubectl('delete', 'configmap', 'settings', '-n', from)
  await expect.poll(colour, { timeout: 60_000 }).toBeUndefined()
})
