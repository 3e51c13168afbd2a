/** Containers that run in the runtime's process, next to containers with their own process. */
import { expect, test } from 'vitest'
import type { HostedContext, HostedProgram } from '../images/resolver.ts'
import type { ImageResolver } from '../index.ts'
import {
  key,
  nodeImage,
  openTestCluster,
  pod,
  ready,
  script,
  staying,
  text,
  until,
  untilPod,
} from '../testing/runtime.ts'
import { createVolumeUse } from '../volumes/use.ts'
import { runHosted } from './hosted.ts'
import { initialView } from './view.ts'

const quick = { initialMs: 10, maximumMs: 20, resetAfterMs: 60_000 }

/** An image with one hosted program. `starts` sets the behaviour of each start. */
function hosting(...starts: ('runs' | 'fails' | 'ends')[]) {
  const seen: (Omit<HostedContext, 'log'> & { args: readonly string[]; isOver: boolean })[] = []
  const images: ImageResolver = async (image, volumes) => ({
    ...(await nodeImage(image, volumes)),
    commands: { tool: ['/no/such/program'] },
    hosted: {
      'tool watch': async (args, { log, environment, mayWrite }) => {
        const start = { args, environment, mayWrite, isOver: false }
        seen.push(start)
        const what = starts[seen.length - 1] ?? 'runs'
        if (what === 'fails') throw new Error('the server cannot listen')
        log('it has begun')
        const over = Promise.withResolvers<number>()
        if (what === 'ends') over.resolve(3)
        const stop = async () => {
          start.isOver = true
          over.resolve(0)
        }
        return { ended: over.promise, stop }
      },
    },
  })
  return { images, seen }
}
const watch = {
  name: 'watch',
  image: 'node',
  command: ['tool', 'watch'],
  args: ['--host', '$(POD_IP)', '--state', '/state'],
  env: [
    { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
    { name: 'STATE', value: '/state/x' },
  ],
  volumeMounts: [{ name: 'state', mountPath: '/state' }],
  livenessProbe: { tcpSocket: { port: 1 }, periodSeconds: 1, failureThreshold: 1 },
}
const volumes = [{ name: 'state', emptyDir: {} }]

test('a hosted program runs with its arguments next to a process, has a log, and ends with the pod', async () => {
  const { images, seen } = hosting()
  const { cluster, runtime } = await openTestCluster({ images })
  await cluster.create('Pod', pod('p', { volumes, containers: [script(staying), watch] }))
  const { status } = await untilPod(cluster, 'p', ready)
  const [, address, , state] = seen[0]?.args ?? []
  expect(address).toBe(status?.podIP)
  expect(state).toMatch(/\/state$/)
  expect(seen[0]?.environment.get('STATE')).toBe(`${state}/x`)
  expect(seen[0]?.mayWrite()).toBe(true)
  expect((await runtime.logs(key('p'), { container: 'watch' })).map(text)).toEqual(['it has begun'])
  await cluster.delete('Pod', key('p'))
  await until(async () => (await cluster.get('Pod', key('p'))) === undefined)
  expect(seen.map(({ isOver }) => isOver)).toEqual([true])
})

test("a hosted program may write to its pod's volumes except while an image of them is taken", async () => {
  const use = createVolumeUse()
  const view = initialView('watch', 'node', undefined)
  const received = Promise.withResolvers<HostedContext['mayWrite']>()
  const stopping = new AbortController()
  const over = Promise.withResolvers<number>()
  const start: HostedProgram = async (_args, { mayWrite }) => {
    received.resolve(mayWrite)
    return { ended: over.promise, stop: async () => over.resolve(0) }
  }
  const log = { stream: () => ({ push: () => true, end() {} }), close() {} }
  const options = { view, log, use, volumes: ['volume'], changed() {}, now: Date.now, stopping: stopping.signal }
  const run = runHosted(options, { start, args: [], environment: new Map() })
  const mayWrite = await received.promise
  const release = await use.freeze('volume')
  expect(mayWrite()).toBe(false)
  release()
  expect(mayWrite()).toBe(true)
  stopping.abort()
  expect(await run).toMatchObject({ exitCode: 0 })
})

test('a hosted program that cannot start, or ends, is restarted; the process next to it continues', async () => {
  const { images, seen } = hosting('fails', 'ends', 'runs')
  const { cluster } = await openTestCluster({ images, backoff: quick })
  await cluster.create('Pod', pod('p', { volumes, containers: [script(staying), watch] }))
  await until(() => seen.length === 3)
  const { status } = await untilPod(cluster, 'p', ready)
  const [process, watching] = status?.containerStatuses ?? []
  expect(process).toMatchObject({ restartCount: 0 })
  expect(watching).toMatchObject({ restartCount: 2, lastState: { terminated: { exitCode: 3, reason: 'Error' } } })
})
