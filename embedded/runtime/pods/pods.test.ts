/** Pods as real processes: containers, environment, probes, volumes, termination. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ImageResolver } from '../index.ts'
import { descendantsOf, isAlive, readProcess, readProcesses } from '../processes/table.ts'
import {
  claim,
  key,
  namespace,
  nodeImage,
  openTestCluster,
  phase,
  pod,
  processOf,
  ready,
  script,
  statefulSet,
  staying,
  temporaryDirectory,
  testOwner,
  text,
  until,
  untilPod,
} from '../testing/runtime.ts'

const shellImage: ImageResolver = async () => ({ path: [], commands: {} })
const quick = { initialMs: 50, maximumMs: 200, resetAfterMs: 60_000 }
const base64 = (value: string): string => Buffer.from(value).toString('base64')
const secret = (data: Record<string, string>) => ({
  apiVersion: 'v1' as const,
  kind: 'Secret' as const,
  metadata: { name: 'secret', namespace },
  data: Object.fromEntries(Object.entries(data).map(([name, value]) => [name, base64(value)])),
})

test("a pod with scheduling gates never runs, and blocks a StatefulSet's pod of the same name", async () => {
  const { cluster } = await openTestCluster({ backoff: quick })
  const gated = pod('held-0', { schedulingGates: [{ name: 'lock' }], containers: [script(staying)] })
  const made = await cluster.create('Pod', gated)
  await cluster.create('StatefulSet', statefulSet('held', { containers: [script(staying)] }))
  await cluster.create('Pod', pod('later', { containers: [script(staying)] }))
  await untilPod(cluster, 'later', ready)
  const found = await cluster.get('Pod', key('held-0'))
  expect([found?.metadata.uid, found?.spec?.nodeName, found?.status?.phase]).toEqual([
    ...[made.metadata.uid, undefined, made.status?.phase],
  ])
  await cluster.delete('Pod', key('held-0'))
  await untilPod(cluster, 'held-0', object => object.metadata.uid !== made.metadata.uid && ready(object))
})

describe('containers', () => {
  test('init containers run one after another, and are restarted until they succeed', async () => {
    const { cluster, runtime } = await openTestCluster({ backoff: quick })
    const mount = { volumeMounts: [{ name: 'shared', mountPath: '/shared' }] }
    const failing = `
      const fs = require('node:fs'), tries = process.argv[1]
      fs.appendFileSync(tries, 'x')
      process.exit(fs.readFileSync(tries, 'utf8').length < 3 ? 1 : 0)`
    const first = { name: 'first', image: 'node', command: ['node', '-e', failing, '/shared/tries'], ...mount }
    const second = script(`require('node:fs').appendFileSync('/shared/tries', 'y')`, { name: 'second', ...mount })
    const main = script(`console.log(require('node:fs').readFileSync('/shared/tries', 'utf8')); ${staying}`, mount)
    const volumes = [{ name: 'shared', emptyDir: {} }]
    await cluster.create('Pod', pod('p', { volumes, initContainers: [first, second], containers: [main] }))
    const up = await untilPod(cluster, 'p', ready)
    await until(async () => (await runtime.logs(key('p'))).length > 0)
    expect(text((await runtime.logs(key('p')))[0] ?? '')).toBe('xxxy')
    expect(up.status?.initContainerStatuses?.map(({ restartCount }) => restartCount)).toEqual([2, 0])
    expect(up.status?.initContainerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' })
    expect(up.status?.conditions?.find(({ type }) => type === 'Initialized')?.status).toBe('True')
  })

  test('a container killed with SIGKILL restarts at once; a container that keeps failing waits', async () => {
    const { cluster, runtime } = await openTestCluster({ backoff: { ...quick, initialMs: 60_000, maximumMs: 60_000 } })
    await cluster.create('Pod', pod('p', { containers: [script(staying)] }))
    await untilPod(cluster, 'p', ready)
    await until(async () => (await processOf(runtime, 'p')) > 0)
    process.kill(await processOf(runtime, 'p'), 'SIGKILL')
    const restarted = (count: number) => (found: Parameters<typeof ready>[0]) =>
      found.status?.containerStatuses?.[0]?.restartCount === count
    const again = await untilPod(cluster, 'p', found => restarted(1)(found) && ready(found), 3000)
    expect(again.status?.containerStatuses?.[0]?.lastState?.terminated).toMatchObject({ exitCode: 137, signal: 9 })
    await until(async () => (await runtime.logs(key('p'))).length === 2)
    process.kill(await processOf(runtime, 'p'), 'SIGKILL')
    const waiting = await untilPod(cluster, 'p', restarted(2))
    expect(waiting.status?.containerStatuses?.[0]?.state?.waiting?.reason).toBe('CrashLoopBackOff')
    expect(ready(waiting)).toBe(false)
  })

  test('with restart policy Never, the pod succeeds or fails with its containers, and reports their exit', async () => {
    const { cluster } = await openTestCluster()
    const spec = { restartPolicy: 'Never' }
    await cluster.create('Pod', pod('good', { ...spec, containers: [script('')] }))
    const message = `require('node:fs').writeFileSync('/dev/termination-log', 'no luck'); process.exit(7)`
    await cluster.create('Pod', pod('bad', { ...spec, containers: [script(message)] }))
    const crash = script(`console.error('last words'); process.exit(1)`, {
      terminationMessagePolicy: 'FallbackToLogsOnError',
    })
    await cluster.create('Pod', pod('loud', { ...spec, containers: [crash] }))
    await untilPod(cluster, 'good', phase('Succeeded'))
    const stateOf = async (name: string) =>
      (await untilPod(cluster, name, phase('Failed'))).status?.containerStatuses?.[0]?.state?.terminated
    expect(await stateOf('bad')).toMatchObject({ exitCode: 7, reason: 'Error', message: 'no luck' })
    expect(await stateOf('loud')).toMatchObject({ exitCode: 1, message: 'last words' })
  })

  test('a container that cannot be started reports why, and starts once it can be started', async () => {
    const { cluster } = await openTestCluster()
    const waitingFor = async (name: string, reason: string) => {
      const found = await untilPod(
        cluster,
        name,
        candidate => candidate.status?.containerStatuses?.[0]?.state?.waiting?.reason === reason,
      )
      return found.status?.containerStatuses?.[0]?.state?.waiting?.message
    }
    const env = [{ name: 'X', valueFrom: { secretKeyRef: { name: 'secret', key: 'x' } } }]
    await cluster.create('Pod', pod('waiting', { containers: [script(staying, { env })] }))
    await cluster.create('Pod', pod('mute', { containers: [{ name: 'main', image: 'node' }] }))
    await cluster.create(
      'Pod',
      pod('unknown', { restartPolicy: 'Never', containers: [script('', { command: ['/nope'] })] }),
    )
    expect(await waitingFor('waiting', 'CreateContainerConfigError')).toBe('Secret "secret" not found')
    expect(await waitingFor('mute', 'CreateContainerConfigError')).toContain('must set a command')
    const failed = await untilPod(cluster, 'unknown', phase('Failed'))
    expect(failed.status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({
      ...{ exitCode: 128, reason: 'StartError' },
      message: expect.stringContaining('ENOENT'),
    })
    await cluster.create('Secret', secret({ x: '1' }))
    await untilPod(cluster, 'waiting', ready, 2000)
  })

  test('a readiness probe makes a container ready and unready, and a failed liveness probe restarts it', async () => {
    const { cluster } = await openTestCluster({ backoff: quick })
    const server = `
      let healthy = true
      require('node:http').createServer((request, response) => {
        if (request.url === '/break') healthy = false
        response.writeHead(healthy ? 200 : 500).end()
      }).listen(8080, process.env.POD_IP)`
    const container = script(server, {
      env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
      ports: [{ name: 'http', containerPort: 8080 }],
      readinessProbe: { tcpSocket: { port: 'http' }, periodSeconds: 10 },
      livenessProbe: {
        httpGet: { port: 'http', path: '/' },
        periodSeconds: 1,
        failureThreshold: 1,
        initialDelaySeconds: 1,
      },
    })
    await cluster.create('Pod', pod('p', { containers: [container] }))
    const up = await untilPod(cluster, 'p', ready, 3000)
    await fetch(`http://${up.status?.podIP}:8080/break`)
    await untilPod(cluster, 'p', found => found.status?.containerStatuses?.[0]?.restartCount === 1 && ready(found))
  })
})

describe('termination of a pod', () => {
  test('a container that ignores its signal is killed after the grace period, with all its descendants', async () => {
    const { cluster, runtime } = await openTestCluster()
    const source = `
      process.on('SIGTERM', () => console.log('ignored'))
      require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' })
      ${staying}`
    await cluster.create('Pod', pod('p', { terminationGracePeriodSeconds: 1, containers: [script(source)] }))
    await untilPod(cluster, 'p', ready)
    await until(async () => (await processOf(runtime, 'p')) > 0)
    const main = await processOf(runtime, 'p')
    await until(() => descendantsOf(readProcesses(), [main]).length > 0)
    const tree = [readProcess(main), ...descendantsOf(readProcesses(), [main])].flatMap(entry => entry ?? [])
    await cluster.delete('Pod', key('p'))
    await until(async () => (await cluster.get('Pod', key('p'))) === undefined)
    expect(tree.length).toBeGreaterThan(1)
    expect(tree.some(isAlive)).toBe(false)
  })

  test.each([
    ['of its own', { stopSignal: 'SIGINT' }, undefined, 'SIGINT'],
    ["of its image's", undefined, 'SIGINT', 'SIGINT'],
    ["of its own rather than its image's", { stopSignal: 'SIGTERM' }, 'SIGINT', 'SIGTERM'],
    ['by default', undefined, undefined, 'SIGTERM'],
  ] as const)('a stop signal %s is used', async (_, lifecycle, stopSignal, expected) => {
    const images: ImageResolver = async (...request) => ({
      ...(await nodeImage(...request)),
      ...(stopSignal && { stopSignal }),
    })
    const { cluster, runtime } = await openTestCluster({ images })
    const file = join(temporaryDirectory(), 'out')
    const source = `
      const stop = name => { require('node:fs').writeFileSync(${JSON.stringify(file)}, name); process.exit(0) }
      process.on('SIGINT', stop); process.on('SIGTERM', stop)
      ${staying}`
    await cluster.create('Pod', pod('p', { containers: [script(source, { lifecycle })] }))
    await untilPod(cluster, 'p', ready)
    // Waits for the handler; before it is installed, a signal would end the process.
    await until(async () => (await processOf(runtime, 'p')) > 0)
    await cluster.delete('Pod', key('p'))
    await until(async () => (await cluster.get('Pod', key('p'))) === undefined)
    expect(readFileSync(file, 'utf8')).toBe(expected)
  })

  test('processes of a container that died do not run next to the restarted container', async () => {
    const { cluster, runtime } = await openTestCluster({ backoff: quick })
    const source = `
      const options = { detached: true, stdio: 'ignore' }
      const child = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], options)
      console.log('child', child.pid)
      ${staying}`
    await cluster.create('Pod', pod('p', { containers: [script(source)] }))
    await untilPod(cluster, 'p', ready)
    await until(async () => (await processOf(runtime, 'p')) > 0)
    const line = (await runtime.logs(key('p'))).map(text).find(found => found.startsWith('child'))
    const orphan = readProcess(Number(line?.slice(6)))
    process.kill(await processOf(runtime, 'p'), 'SIGKILL')
    await untilPod(cluster, 'p', found => found.status?.containerStatuses?.[0]?.restartCount === 1 && ready(found))
    expect(orphan).toBeDefined()
    expect(orphan && isAlive(orphan)).toBe(false)
  })
})

describe('resources of a pod', () => {
  test("its own environment, without the runtime's variables", async () => {
    process.env.ESPALIER_TEST_LEAK = 'do not show'
    const { cluster, runtime } = await openTestCluster()
    const container = script(`console.log(JSON.stringify(process.env)); ${staying}`, {
      env: [
        { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
        { name: 'LISTEN', value: '$(POD_IP):5432' },
      ],
    })
    await cluster.create('Pod', pod('p', { containers: [container] }))
    const up = await untilPod(cluster, 'p', ready)
    await until(async () => (await runtime.logs(key('p'))).length > 0)
    const environment = JSON.parse(text((await runtime.logs(key('p')))[0] ?? ''))
    expect(environment).toMatchObject({ LISTEN: `${up.status?.podIP}:5432`, HOSTNAME: 'p' })
    expect(environment.ESPALIER_TEST_LEAK).toBeUndefined()
    delete process.env.ESPALIER_TEST_LEAK
  })

  test('Secret files readable only by its user, which follow the Secret', async () => {
    const owner = testOwner()
    const directory = temporaryDirectory()
    const { cluster } = await openTestCluster({ directory, runAs: owner, images: shellImage })
    await cluster.create('Secret', secret({ password: 'one' }))
    const shell = 'while sleep 0.02; do cat /secret/password >> /data/seen; done'
    await cluster.create('PersistentVolumeClaim', claim('data'))
    await cluster.create(
      'Pod',
      pod('p', {
        volumes: [
          { name: 'secret', secret: { secretName: 'secret' } },
          { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
        ],
        containers: [
          {
            ...{ name: 'main', image: 'shell', command: ['sh', '-c', shell] },
            volumeMounts: [
              { name: 'secret', mountPath: '/secret' },
              { name: 'data', mountPath: '/data' },
            ],
          },
        ],
      }),
    )
    const up = await untilPod(cluster, 'p', ready)
    const uid = (await cluster.get('PersistentVolumeClaim', key('data')))?.metadata.uid ?? ''
    const seen = join(directory, 'volumes', namespace, uid, 'seen')
    const file = join(directory, 'pods', up.metadata.uid ?? '', 'volumes', 'secret', 'password')
    expect(statSync(file)).toMatchObject({ uid: owner?.uid ?? process.getuid?.() })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await until(() => existsSync(seen) && readFileSync(seen, 'utf8').startsWith('one'))
    const stored = await cluster.get('Secret', key('secret'))
    if (stored) await cluster.replace('Secret', { ...stored, data: { password: base64('two') } })
    await until(() => readFileSync(seen, 'utf8').endsWith('two'))
    expect(readFileSync(seen, 'utf8')).toMatch(/^(one)+(two)+$/)
    expect(statSync(seen).uid).toBe(owner?.uid ?? process.getuid?.())
    await cluster.delete('Pod', key('p'))
    await until(async () => (await cluster.get('Pod', key('p'))) === undefined)
    expect(readdirSync(join(directory, 'pods'))).toEqual([])
    await until(() => !existsSync(join(directory, 'logs', namespace, 'p')))
  })

  test('a pod waits for a volume that another pod uses exclusively', async () => {
    const { cluster } = await openTestCluster()
    await cluster.create('PersistentVolumeClaim', claim('data'))
    const spec = {
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
      containers: [script(staying)],
    }
    await cluster.create('Pod', pod('one', spec))
    await untilPod(cluster, 'one', ready)
    await cluster.create('Pod', pod('two', spec))
    const waiting = await untilPod(cluster, 'two', found => found.status?.message !== undefined)
    expect(waiting.status).toMatchObject({ phase: 'Pending', message: 'a volume is in use by another pod' })
    await cluster.delete('Pod', key('one'))
    await untilPod(cluster, 'two', ready, 5000)
  })

  test('a container with a flood of output is slowed down, never stopped, and its newest lines remain', async () => {
    const { cluster, runtime } = await openTestCluster()
    const flood = `
      const block = 'x'.repeat(99) + '\\n'
      let sent = 0
      const go = () => { while (process.stdout.write(block.repeat(600))) if ((sent += 60_000) > 14e6) return end(); process.stdout.once('drain', go) }
      const end = () => { require('node:fs').writeFileSync(process.argv[1], 'done'); setInterval(() => {}, 1000) }
      go()`
    const done = join(temporaryDirectory(), 'done')
    await cluster.create('Pod', pod('p', { containers: [script(flood, { args: [done] })] }))
    await until(() => existsSync(done), 20_000)
    expect((await runtime.logs(key('p'), { tailLines: 10 })).length).toBe(10)
  })
})

test('hundreds of restarts leak no file or listener', { timeout: 180_000 }, async () => {
  const { cluster } = await openTestCluster({
    images: shellImage,
    backoff: { initialMs: 0, maximumMs: 0, resetAfterMs: 1e9 },
  })
  const container = { name: 'main', image: 'shell', command: ['sh', '-c', 'exit 0'] }
  const spec = { containers: [container] }
  const restarts = async () => (await cluster.get('Pod', key('p')))?.status?.containerStatuses?.[0]?.restartCount ?? 0
  const open = () => readdirSync('/proc/self/fd').length
  await cluster.create('Pod', pod('p', spec))
  await until(async () => (await restarts()) > 20)
  const before = open()
  await until(async () => (await restarts()) > 300, 150_000)
  expect(open()).toBeLessThan(before + 10)
  await cluster.delete('Pod', key('p'))
  await until(async () => (await cluster.get('Pod', key('p'))) === undefined)
})
