/** Refuses a connection, for both data planes: counts it, logs some of the refusals, and passes it to the agent. */
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { TokenBucket, TokenBuckets } from '../../server/token-bucket.ts'
import type { GatewayMetrics, Outcome } from '../metrics.ts'
import type { DenialAgent } from './denial.ts'
import type { Refusal } from './refusal.ts'

type Refused = { port: number; address: string; label?: string }
export type Refuse = (socket: Socket, who: Refused, outcome: Outcome, refusal: Refusal) => void

export function createRefuse(options: {
  agent: DenialAgent
  metrics: GatewayMetrics
  now: () => number
  logger: Logger
}): Refuse {
  const { agent, metrics, now, logger } = options
  const lines = new TokenBuckets(now, { perSecond: 0.1, burst: 1 }, 10_000)
  const allLines = new TokenBucket(now, { perSecond: 20, burst: 100 })
  return (socket, { port, address, label }, outcome, refusal) => {
    metrics.count(outcome)
    if (lines.of(`${port} ${address} ${outcome}`).take() && allLines.take())
      logger.info({ label, port, address, outcome }, `connection refused: ${refusal.message}`)
    agent.refuse(socket, address, refusal)
  }
}
