/**
 * `espalier instance agent`: monitors the Postgres of its pod. The agent samples Postgres and its volume. The API reads
 * the samples of the last two hours, and metrics collectors read the newest sample. The agent limits the size of
 * Postgres's log, and the API reads the log's entries. To limit the log, the agent deletes finished files, and
 * truncates the current files only if the log still exceeds its limit. With an archive, the agent archives WAL and
 * takes base backups. A failure of the agent never stops Postgres.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ArchiveOptions } from '../archive/index.ts'
import { archiveRoutes } from './archive.ts'
import { agentPort, sampleEveryMs } from './contract.ts'
import { contentType, exposition } from './exposition.ts'
import { openHistory } from './history.ts'
import { createForwarder } from './log/forward.ts'
import { keepLog } from './log/keep.ts'
import { logRoute } from './log/route.ts'
import { createSampler, phaseOf, sampleRegularly } from './sampler.ts'
import { type AgentServer, type Routes, startServer } from './server.ts'

export type AgentOptions = {
  /** The instance's id: a UUID. */
  id: string
  /** The pod's address, on which Postgres and the agent listen. */
  host: string
  /** The root directory of the volume. */
  data: string
  /** The directory of the mounted Secret. */
  tls: string
  /** The directory of the agent's own files. */
  state: string
  /** The directory of Postgres's log. Default: the agent does not limit, forward or return the log. */
  logDirectory?: string | undefined
  /** Receives new log lines; each text contains complete lines. Absent: the agent forwards no log lines. */
  passOn?: ((text: string) => void) | undefined
  /** Whether writing to the volume is allowed now. Absent: always. */
  mayWrite?: (() => boolean) | undefined
  /** Settings for archiving. Absent: the agent does not archive. */
  archive?: ArchiveOptions | undefined
  /** For tests: ports, clock, and client timeout. */
  port?: number
  postgresPort?: number
  now?: () => number
  timeoutMs?: number
  log: (line: string) => void
}

export type Agent = Pick<AgentServer, 'port' | 'stop'>

const defaultPostgresPort = 5432

/** @throws if the agent cannot listen */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { id, host, data, tls, state, port = agentPort, postgresPort = defaultPostgresPort, now = Date.now } = options
  const { logDirectory, passOn, mayWrite = () => true, timeoutMs } = options
  let isOver = false
  const log = (line: string) => {
    if (!isOver) options.log(line)
  }
  mkdirSync(state, { recursive: true, mode: 0o700 })
  const history = openHistory(join(state, 'samples.ndjson'))
  // This module is loaded only if needed, because an agent has little memory.
  const { startArchiving } = options.archive === undefined ? {} : await import('../archive/index.ts')
  const archiving =
    options.archive && startArchiving?.(options.archive, { host, postgresPort, volume: data, tls, now, log })
  const json = (value: unknown) => ({ contentType: 'application/json', body: JSON.stringify(value) })
  const routes: Routes = {
    '/healthz': { answer: () => ({ contentType: 'text/plain', body: 'ok\n' }) },
    '/metrics': {
      for: ['api', 'metrics'],
      answer: () => ({ contentType, body: exposition(id, fresh(history.latest(), now())) }),
    },
    '/samples': {
      for: ['api'],
      answer: query => json({ id, samples: history.since(Number(query.get('since') ?? 0) || 0) }),
    },
    ...(logDirectory === undefined ? {} : { '/log': logRoute(logDirectory, id) }),
    ...(archiving === undefined ? {} : archiveRoutes(archiving)),
  }
  const server = await startServer({ host, port, tls, routes, log, ...(timeoutMs && { timeoutMs }) }).catch(
    async (error: unknown) => {
      await archiving?.stop()
      throw error
    },
  )
  const sample = createSampler({ host, port: postgresPort, data, tls, history, now, log })
  const sampleOnce = (keepsFailures: boolean) => {
    server.follow()
    return sample(keepsFailures)
  }
  const stopSampling = sampleRegularly(sampleOnce, { now, phaseMs: phaseOf(id) })
  const stopKeeping =
    logDirectory === undefined
      ? () => {}
      : keepLog({
          ...{ path: logDirectory, owner: id, mayWrite, log },
          forwarder: passOn && createForwarder(join(state, 'log-position.json'), passOn),
        })
  return {
    port: server.port,
    stop: async () => {
      isOver = true
      stopKeeping()
      stopSampling()
      await archiving?.stop()
      await server.stop()
    },
  }
}

/** Metrics contain no sample of this age or older, for example after the pod was paused. */
const staleMs = 3 * sampleEveryMs

const fresh = <S extends { at: number }>(sample: S | undefined, now: number): S | undefined =>
  sample !== undefined && now - sample.at < staleMs ? sample : undefined
