import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../testing/runtime.ts'
import type { Container } from './environment.ts'
import { fullDiskCode, type Probe, portNumber, runProbe } from './probes.ts'
import { count, defaultProbeTiming, initialState, startProbing, waitMs } from './probing.ts'

async function listen(server: Server): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}
const context = { podIp: '127.0.0.1', ports: [], execute: async () => 0 }

describe('count', () => {
  const probe: Probe = { periodSeconds: 10, failureThreshold: 2, successThreshold: 2 }
  const stateOf = (probes: [ok: boolean, at: number][]) =>
    probes.reduce((state, [ok, at]) => count(state, probe, ok, at), initialState)
  test('early failures count once per period', () => {
    expect(
      stateOf([
        [false, 0],
        [false, 50],
        [false, 100],
      ]).failures,
    ).toBe(1)
    expect(
      stateOf([
        [false, 0],
        [false, 50],
        [false, 10_000],
      ]).result,
    ).toBe('failure')
  })
  test('only consecutive successes count', () => {
    expect(
      stateOf([
        [true, 0],
        [false, 50],
        [true, 100],
      ]).result,
    ).toBe('unknown')
    expect(
      stateOf([
        [true, 0],
        [true, 50],
      ]).result,
    ).toBe('success')
  })
  test('a success resets failures, and failures reset successes', () => {
    expect(
      stateOf([
        [false, 0],
        [true, 50],
        [false, 10_000],
      ]).failures,
    ).toBe(1)
    expect(
      stateOf([
        [true, 0],
        [true, 1],
        [false, 2],
        [false, 10_002],
      ]).result,
    ).toBe('failure')
  })
})

test('probes are frequent until the first success, for a limited time', () => {
  const probe: Probe = { periodSeconds: 10, tcpSocket: { port: 1 } }
  expect(waitMs(initialState, probe, 0, 3_000, defaultProbeTiming)).toBe(10)
  expect(waitMs(initialState, { periodSeconds: 10, exec: {} }, 0, 3_000, defaultProbeTiming)).toBe(50)
  expect(waitMs(initialState, probe, 60_000, 3_000, defaultProbeTiming)).toBe(1000)
})

test('healthy containers are probed in groups every five seconds, and at least once per period', () => {
  const well = { ...initialState, result: 'success' } as const
  const wait = (periodSeconds: number, now: number) =>
    waitMs(well, { periodSeconds, tcpSocket: { port: 1 } }, 0, now, defaultProbeTiming)
  expect(wait(10, 0)).toBe(10_000)
  expect(wait(10, 3_000)).toBe(7_000)
  expect(wait(20, 20_004)).toBe(19_996)
  expect(wait(5, 3_000)).toBe(5_000)
})

describe('runProbe', () => {
  test('tcpSocket', async () => {
    const server = createServer(socket => socket.destroy())
    const port = await listen(server)
    expect(await runProbe({ tcpSocket: { port } }, context)).toEqual({ ok: true })
    await new Promise(resolve => server.close(resolve))
    expect(await runProbe({ tcpSocket: { port } }, context)).toMatchObject({ ok: false })
    expect(await runProbe({ tcpSocket: { port: 'absent' } }, context)).toMatchObject({
      message: 'no port named "absent"',
    })
  })
  test('httpGet uses the status, sends headers, and times out without an answer', async () => {
    const server = createHttpServer((request, response) => {
      if (request.url === '/silent') return
      response.writeHead(request.headers['x-ask'] === 'yes' ? 204 : 503).end()
    })
    const port = await listen(server)
    onTestFinished(() => server.closeAllConnections())
    const get = (path: string, extra: object = {}) => runProbe({ httpGet: { port, path, ...extra } }, context)
    expect(await get('/', { httpHeaders: [{ name: 'X-Ask', value: 'yes' }] })).toEqual({ ok: true })
    expect(await get('/')).toEqual({ ok: false, message: 'HTTP status 503' })
    expect(await runProbe({ httpGet: { port, path: '/silent' }, timeoutSeconds: 0.05 }, context)).toMatchObject({
      message: 'no answer within 50 ms',
    })
  })
  test('exec uses the exit code', async () => {
    const exec = (code: number | undefined) =>
      runProbe({ exec: { command: ['x'] } }, { ...context, execute: async () => code })
    expect(await exec(0)).toEqual({ ok: true })
    expect(await exec(3)).toMatchObject({ message: 'command ended with exit code 3' })
    expect(await exec(undefined)).toMatchObject({ message: 'command timed out after 1000 ms' })
  })
  test('ports are given by number or by name', () => {
    const ports = [{ name: 'postgres', containerPort: 5432 }]
    expect([
      portNumber(80, ports),
      portNumber('postgres', ports),
      portNumber('81', ports),
      portNumber('x', ports),
    ]).toEqual([80, 5432, 81, undefined])
  })
})

describe('startProbing', () => {
  const probing = (
    container: Partial<Container>,
    execute: (command: string[]) => number,
    epoch = () => 0,
    nextAlarm = () => new AbortController().signal,
  ) => {
    const events: string[] = []
    const stop = new AbortController()
    onTestFinished(() => stop.abort())
    startProbing(
      {
        container: { name: 'main', ...container },
        context: { ...context, execute: async command => execute(command) },
        timing: { eagerMs: 2, eagerConnectMs: 2, eagerForMs: 1000 },
        epoch,
        nextAlarm,
        onStarted: () => events.push('started'),
        onReady: ready => events.push(ready ? 'ready' : 'unready'),
        onUnhealthy: which => events.push(`unhealthy ${which}`),
        now: () => performance.now(),
      },
      stop.signal,
    )
    return events
  }
  const exec = (name: string, more: Partial<Probe> = {}): Probe => ({ exec: { command: [name] }, ...more })

  test('a full disk makes a container unready at the alarm, without waiting for its period', async () => {
    let alarm = new AbortController()
    let answer = 0
    const probe = exec('ready', { periodSeconds: 60, failureThreshold: 2 })
    const events = probing(
      { readinessProbe: probe },
      () => answer,
      undefined,
      () => alarm.signal,
    )
    await until(() => events.includes('ready'))
    answer = fullDiskCode
    const previous = alarm
    alarm = new AbortController()
    previous.abort()
    await until(() => events.includes('unready'))
  })
  test('without probes a container is ready at once', () => {
    expect(probing({}, () => 0)).toEqual(['started', 'ready'])
  })
  test('the startup probe runs first; then the readiness probe makes the container ready and unready', async () => {
    const answers: Record<string, number> = { startup: 1, ready: 1 }
    const events = probing(
      { startupProbe: exec('startup'), readinessProbe: exec('ready', { periodSeconds: 0.01, failureThreshold: 1 }) },
      ([name = '']) => answers[name] ?? 1,
    )
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(events).toEqual([])
    answers.startup = 0
    await until(() => events.includes('unready'))
    answers.ready = 0
    await until(() => events.includes('ready'))
    answers.ready = 1
    await until(() => events.length === 4)
    expect(events).toEqual(['started', 'unready', 'ready', 'unready'])
  })
  test('a startup or liveness probe that fails permanently requests a restart', async () => {
    const failing = { periodSeconds: 0.01, failureThreshold: 3 }
    const startup = probing({ startupProbe: exec('x', failing) }, () => 1)
    const liveness = probing({ livenessProbe: exec('x', failing) }, () => 1)
    await until(() => startup.length > 0 && liveness.includes('unhealthy liveness'))
    expect(startup).toEqual(['unhealthy startup'])
  })
  test('probes during a freeze do not count', async () => {
    let frozen = true
    let epoch = 0
    let probes = 0
    const failing = { periodSeconds: 0.01, failureThreshold: 1 }
    const events = probing(
      { livenessProbe: exec('x', failing) },
      () => {
        probes += 1
        epoch += 1 // a freeze began and ended meanwhile
        return 1
      },
      () => (frozen ? -1 : epoch),
    )
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(probes).toBe(0)
    frozen = false
    await until(() => probes > 5)
    expect(events).toEqual(['started', 'ready'])
  })
})
