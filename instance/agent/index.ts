/**
 * `espalier instance agent`: watches the Postgres of its pod. It samples what Postgres and its volume are like and answers
 * for the last two hours, to the API and to whoever gathers metrics; and it keeps Postgres's log within its bounds, and answers for
 * that. It is beside Postgres and never in its way: it changes nothing but files of the log that Postgres has done with, and
 * whatever goes wrong with it ends at most itself.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { agentPort, sampleEveryMs } from './contract.ts'
import { contentType, exposition } from './exposition.ts'
import { openHistory } from './history.ts'
import { createForwarder } from './log/forward.ts'
import { keepLog } from './log/keep.ts'
import { logRoute } from './log/route.ts'
import { createSampler, phaseOf, sampleRegularly } from './sampler.ts'
import { type AgentServer, type Routes, startServer } from './server.ts'

export type AgentOptions = {
  /** Whose instance it is: a UUID. */
  id: string
  /** The pod's address: there Postgres listens, and the agent. */
  host: string
  /** The volume. */
  data: string
  /** The mounted Secret. */
  tls: string
  /** What it keeps for itself. */
  state: string
  /** Where Postgres keeps its log. Absent: not on the volume, or where nobody bounds it. */
  logDirectory?: string | undefined
  /** Takes what comes to the log, in whole lines. Absent: it is not passed on. */
  passOn?: ((text: string) => void) | undefined
  /** Whether the volume may be written to at this moment. Absent: at any. */
  mayWrite?: (() => boolean) | undefined
  /** For tests: other ports, another clock, less patience with clients. */
  port?: number
  postgresPort?: number
  now?: () => number
  patienceMs?: number
  log: (line: string) => void
}

export type Agent = Pick<AgentServer, 'port' | 'stop'>

const defaultPostgresPort = 5432

/** @throws where it cannot listen */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { id, host, data, tls, state, port = agentPort, postgresPort = defaultPostgresPort, now = Date.now } = options
  const { logDirectory, passOn, mayWrite = () => true, patienceMs } = options
  let isOver = false
  const log = (line: string) => {
    if (!isOver) options.log(line)
  }
  mkdirSync(state, { recursive: true, mode: 0o700 })
  const history = openHistory(join(state, 'samples.ndjson'))
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
  }
  const server = await startServer({ host, port, tls, routes, log, ...(patienceMs && { patienceMs }) })
  const sample = createSampler({ host, port: postgresPort, data, tls, history, now, log })
  const turn = (keepsFailures: boolean) => {
    server.follow()
    return sample(keepsFailures)
  }
  const stopSampling = sampleRegularly(turn, { now, phaseMs: phaseOf(id) })
  const stopKeeping =
    logDirectory === undefined
      ? () => {}
      : keepLog({
          ...{ path: logDirectory, owner: id, mayWrite, log },
          forwarder: passOn && createForwarder(join(state, 'log-position.json'), passOn),
        })
  return {
    port: server.port,
    stop: () => {
      isOver = true
      stopKeeping()
      stopSampling()
      return server.stop()
    },
  }
}

/** What is older than this is not how it is: after a pause of the whole pod, say. */
const staleMs = 3 * sampleEveryMs

const fresh = <S extends { at: number }>(sample: S | undefined, now: number): S | undefined =>
  sample !== undefined && now - sample.at < staleMs ? sample : undefined
