/** The samples of a server: counts of real requests, history, and the page. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { durationName, retainedServiceSamples, type SamplesAnswer } from '../../server/samples.ts'
import type { Handler } from '../http/message.ts'
import { RequestFigures } from '../http/request-figures.ts'
import { makeServer } from '../http/server.ts'
import { SampleHistory } from './history.ts'
import { runSamples, samplesAddress } from './index.ts'
import { usageOf } from './usage.ts'

const logger = { warn: vi.fn() }
const host = '127.0.0.1'

async function serve(handle: Handler, requests: RequestFigures): Promise<number> {
  const server = makeServer({
    ...{ product: 'test/1', maximumBodyBytes: 1_000, maximumHeaderBytes: 16_384, requests, handle },
    rules: () => ({ cors: undefined, traceHeader: undefined }),
    renderError: () => ({ status: 500, headers: [], body: '' }),
  })
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port // The server listens on a TCP port.
}

const own = () => ({ pool_size: 10, pool_in_use: 3, pool_waiting: 0, pool_timeouts: 1 })

async function start(requests: RequestFigures, now: () => number) {
  const samples = await runSamples({ host, port: 0, id: 'd1' }, { service: 'rest', requests, own, now }, logger)
  if (samples === undefined) throw new Error('the server does not listen')
  onTestFinished(() => samples.stop())
  const url = `http://${host}:${samples.address.port}`
  const read = async (): Promise<Record<string, number>[]> => {
    const { names, samples: rows }: SamplesAnswer = JSON.parse(await (await fetch(`${url}/samples`)).text())
    return rows.map(row => Object.fromEntries(['at', ...names].map((name, index) => [name, row[index] ?? Number.NaN])))
  }
  return { samples, url, read }
}

test('requests are counted by status, in progress, and by duration; requests of probes are not counted', async () => {
  let milliseconds = 0
  const requests = new RequestFigures(['/live'], () => milliseconds)
  const released = Promise.withResolvers<void>()
  const port = await serve(async ({ path }) => {
    milliseconds += 30
    if (path === '/held') await released.promise
    if (path === '/fails') throw new Error('refused')
    const event = { status: 200, headers: [['Content-Type', 'text/event-stream']] as const, body: undefined }
    if (path !== '/events') return { status: path === '/missing' ? 404 : 200, headers: [], body: 'x' }
    return {
      ...event,
      stream: async out => {
        out.write('data: 1\n\n')
        await released.promise
        milliseconds += 90_000
      },
    }
  }, requests)
  const { samples, read } = await start(requests, () => 1)
  const get = async (path: string) => (await fetch(`http://${host}:${port}${path}`)).text()
  await get('/')
  await get('/missing')
  await get('/fails')
  await get('/live')
  const open = [get('/held'), get('/events')]
  await vi.waitUntil(() => requests.read().in_progress === 2 && requests.read()[durationName(5)] === 4, {
    timeout: 30_000,
  })
  samples.take(30_000)
  released.resolve()
  await Promise.all(open)
  await vi.waitUntil(() => requests.read().in_progress === 0, { timeout: 30_000 })
  samples.take(60_000)
  const [first, second, third] = await read()
  expect(first).toMatchObject({ at: 1, requests_2xx: 0, in_progress: 0, pool_size: 10, pool_in_use: 3 })
  expect(second).toMatchObject({ at: 30_000, requests_2xx: 1, requests_4xx: 1, requests_5xx: 1, in_progress: 2 })
  // The stream is counted at its start. The delayed request is counted with the time by which the clock advanced.
  expect(third).toMatchObject({ requests_2xx: 3, in_progress: 0, duration_over: 1, 'duration_to_0.05': 4 })
  expect(second?.memory_bytes).toBeGreaterThan(10_000_000)
  expect(third?.cpu_seconds).toBeGreaterThan(0)
})

test('a client that disconnects early is counted once, and is no longer in progress', async () => {
  const requests = new RequestFigures()
  const disconnected = Promise.withResolvers<void>()
  const port = await serve(async (_head, _body, signal) => {
    await once(signal, 'abort')
    disconnected.resolve()
    return { status: 200, headers: [], body: '' }
  }, requests)
  const socket = connect(port, host)
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await vi.waitUntil(() => requests.read().in_progress === 1, { timeout: 30_000 })
  socket.destroy()
  await disconnected.promise
  expect(requests.read()).toMatchObject({ in_progress: 0, requests_2xx: 0, requests_4xx: 1 })
})

test('the newest samples are kept, and a clock that was set back adds no samples', () => {
  const history = new SampleHistory(['a', 'b'], 3)
  for (const at of [1, 2, 3, 4, 2, 4, 5]) history.add(at, { a: at, b: 10 * at })
  expect(history.rows()).toEqual([
    [3, 3, 30],
    [4, 4, 40],
    [5, 5, 50],
  ])
})

test('two hours of samples are small in memory and as a response', async () => {
  const { samples, url } = await start(new RequestFigures(), () => 0)
  for (let index = 1; index <= 2 * retainedServiceSamples; index += 1) samples.take(index * 30_000)
  const text = await (await fetch(`${url}/samples`)).text()
  expect(JSON.parse(text).samples).toHaveLength(retainedServiceSamples)
  expect(text.length).toBeLessThan(100_000)
})

test('there is one page, for GET only', async () => {
  const { url } = await start(new RequestFigures(), () => 0)
  expect((await fetch(`${url}/metrics`)).status).toBe(404)
  expect((await fetch(`${url}/samples`, { method: 'POST' })).status).toBe(405)
})

test('a sample is taken at each multiple of 30 seconds, whenever the process started', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: 1_000_007 })
  onTestFinished(() => void vi.useRealTimers())
  const { read } = await start(new RequestFigures(), Date.now)
  vi.advanceTimersByTime(60_000)
  vi.useRealTimers()
  expect((await read()).map(({ at }) => at)).toEqual([1_000_007, 1_020_000, 1_050_000])
})

test('a port in use disables the samples, not the service', async () => {
  const { samples } = await start(new RequestFigures(), () => 0)
  const { port } = samples.address
  const requests = new RequestFigures()
  expect(await runSamples({ host, port, id: 'd1' }, { service: 'rest', requests, own }, logger)).toBeUndefined()
  expect(logger.warn).toHaveBeenCalledOnce()
  expect(await runSamples(undefined, { service: 'rest', requests, own }, logger)).toBeUndefined()
})

test('environment variables set address and id', () => {
  const read = (ESPALIER_SAMPLES_ADDRESS?: string, ESPALIER_SAMPLES_ID?: string) =>
    samplesAddress({ ESPALIER_SAMPLES_ADDRESS, ESPALIER_SAMPLES_ID })
  expect(read()).toBeUndefined()
  expect(read('10.0.0.1:8433', 'd1')).toEqual({ host: '10.0.0.1', port: 8433, id: 'd1' })
  expect(read('fd00::1:8433', 'd1')).toMatchObject({ host: 'fd00::1', port: 8433 })
  for (const wrong of ['8433', 'host:', 'host:99999']) expect(() => read(wrong, 'd1')).toThrow(/HOST:PORT/)
  expect(() => read('10.0.0.1:8433')).toThrow(/ESPALIER_SAMPLES_ID/)
})

test('usage includes the usage of child processes', async () => {
  const proc = mkdtempSync(join(tmpdir(), 'espalier-usage-'))
  onTestFinished(() => rmSync(proc, { recursive: true }))
  const add = (pid: number, kilobytes: number, times: number[], children: string) => {
    mkdirSync(join(proc, `${pid}/task/${pid}`), { recursive: true })
    writeFileSync(join(proc, `${pid}/status`), `Name:\tnode\nVmRSS:\t  ${kilobytes} kB\nThreads:\t7\n`)
    writeFileSync(join(proc, `${pid}/stat`), `${pid} (a) S b) S 1 1 1 0 -1 4 1 2 3 4 ${times.join(' ')} 20 0`)
    writeFileSync(join(proc, `${pid}/task/${pid}/children`), children)
  }
  add(7, 100, [50, 20, 5, 5], '8 9 ')
  add(8, 30, [100, 20, 0, 0], '')
  expect(usageOf(7, proc)).toEqual({ memoryBytes: 130 * 1024, cpuSeconds: 2 })
  const child = spawn('sleep', ['60'])
  onTestFinished(() => void child.kill())
  await once(child, 'spawn')
  expect(usageOf(process.pid).memoryBytes).toBeGreaterThan(20_000_000)
  expect(usageOf(1, join(proc, 'none')).memoryBytes).toBeGreaterThan(0)
})
