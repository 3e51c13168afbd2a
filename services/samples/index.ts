/**
 * Measures the service itself. Every 30 seconds, it takes a sample of requests, memory and service values. It keeps
 * samples for two hours, and a separate port serves them to the API (ADR 0086). Off unless an environment variable sets
 * that port.
 */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Logger } from 'pino'
import { createPageServer } from '../../server/pages.ts'
import {
  commonMeasures,
  durationNames,
  type OwnFigures,
  ownMeasures,
  type SampledService,
  type SamplesAnswer,
  samplesPath,
  serviceSampleEveryMs,
} from '../../server/samples.ts'
import { closeServer, listen } from '../http/listen.ts'
import type { RequestFigures } from '../http/request-figures.ts'
import { SampleHistory } from './history.ts'
import { usageOf } from './usage.ts'

export type SamplesAddress = {
  readonly host: string
  readonly port: number
  /** The service's database or branch. The API refuses samples of another database or branch. */
  readonly id: string
}

type Sampled<Service extends SampledService> = {
  readonly service: Service
  readonly requests: RequestFigures
  readonly own: () => OwnFigures<Service>
  readonly now?: () => number
}

type RunningSamples = {
  readonly address: AddressInfo
  /** Takes a sample now, with this time. */
  take(at: number): void
  stop(): Promise<void>
}

const addressForm = /^(.{1,255}):(\d{1,5})$/

/** Undefined: the service takes no samples. @throws Error if a variable is invalid */
export function samplesAddress(environment: Readonly<Record<string, string | undefined>>): SamplesAddress | undefined {
  const { ESPALIER_SAMPLES_ADDRESS: address, ESPALIER_SAMPLES_ID: id } = environment
  if (address === undefined || address === '') return undefined
  const [, host = '', port = ''] = addressForm.exec(address) ?? []
  if (host === '' || Number(port) > 65_535) throw new Error('ESPALIER_SAMPLES_ADDRESS must be HOST:PORT')
  if (id === undefined || id === '') throw new Error('ESPALIER_SAMPLES_ID must be set beside ESPALIER_SAMPLES_ADDRESS')
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port), id }
}

/** If the port cannot be opened, the service continues without samples. */
export async function runSamples<Service extends SampledService>(
  address: SamplesAddress | undefined,
  sampled: Sampled<Service>,
  logger: Pick<Logger, 'warn'>,
): Promise<RunningSamples | undefined> {
  if (address === undefined) return undefined
  try {
    return await startSamples(address, sampled)
  } catch (error) {
    logger.warn({ err: error, port: address.port }, 'the service takes no samples: its port for samples cannot be used')
    return undefined
  }
}

/** @throws listen errors */
async function startSamples<Service extends SampledService>(
  { host, port, id }: SamplesAddress,
  { service, requests, own, now = Date.now }: Sampled<Service>,
): Promise<RunningSamples> {
  const names: readonly string[] = [...commonMeasures, ...durationNames, ...ownMeasures[service]]
  const history = new SampleHistory(names)
  let cpuSeconds = 0
  const take = (at: number) => {
    const usage = usageOf(process.pid)
    // A process that exits is for a moment neither among the running processes nor among those for which this process has waited.
    cpuSeconds = Math.max(cpuSeconds, usage.cpuSeconds)
    history.add(at, { ...requests.read(), ...own(), memory_bytes: usage.memoryBytes, cpu_seconds: cpuSeconds })
  }
  const body = () => JSON.stringify({ id, names, samples: history.rows() } satisfies SamplesAnswer)
  const server: Server = createPageServer(
    path => (path === samplesPath ? { status: 200, type: 'application/json', body: body() } : undefined),
    () => {},
  )
  const address = await listen(server, { host, port })
  if (typeof address === 'string') throw new Error('the server for samples has no port')
  // The maxima until the next sample start here.
  take(now())
  /** All servers sample at the same times, so that values can be summed. */
  const untilNext = () => serviceSampleEveryMs - (now() % serviceSampleEveryMs)
  let timer = setTimeout(onTime, untilNext()).unref()
  function onTime(): void {
    take(Math.round(now() / serviceSampleEveryMs) * serviceSampleEveryMs)
    // At least half a period, because a timer may fire a millisecond early.
    const next = untilNext()
    timer = setTimeout(onTime, next < serviceSampleEveryMs / 2 ? next + serviceSampleEveryMs : next).unref()
  }
  return {
    address,
    take,
    async stop() {
      clearTimeout(timer)
      await closeServer(server, 1_000)
    },
  }
}
