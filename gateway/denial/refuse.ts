/** Refuses a connection for whichever data plane: counts it, says so in the log now and then, and hands it to the agent. */
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import type { GatewayMetrics, Outcome } from '../metrics.ts'
import { createRateLimiter } from '../rate-limit.ts'
import type { DenialAgent } from './denial.ts'
import type { Refusal } from './refusal.ts'

export type Refused = { port: number; address: string; label?: string }
export type Refuse = (socket: Socket, who: Refused, outcome: Outcome, refusal: Refusal) => void

export function createRefuse(options: {
  agent: DenialAgent
  metrics: GatewayMetrics
  now: () => number
  logger: Logger
}): Refuse {
  const { agent, metrics, now, logger } = options
  const mayLog = createRateLimiter({ perSecond: 0.1, burst: 1 }, 10_000, now)
  const mayLogAnything = createRateLimiter({ perSecond: 20, burst: 100 }, 1, now)
  return (socket, { port, address, label }, outcome, refusal) => {
    metrics.count(outcome)
    if (mayLog(`${port} ${address} ${outcome}`) && mayLogAnything(''))
      logger.info({ label, port, address, outcome }, `connection refused: ${refusal.message}`)
    agent.refuse(socket, address, refusal)
  }
}
