/**
 * The parts that both transports share, HTTP and stdio, in all revisions. These parts are created once for each core.
 */
import type { Peers } from '../../http/peers/index.ts'
import type { Core } from '../core/index.ts'
import { type Calls, createCalls } from './calls.ts'
import type { TransportLogger } from './context.ts'
import { createLists, type Lists } from './lists.ts'
import { Modern } from './modern/index.ts'
import { createSealer } from './sealed-state.ts'

export type Transports = {
  readonly core: Core
  readonly calls: Calls
  readonly lists: Lists
  readonly modern: Modern
  readonly logger: TransportLogger
}

export type TransportOptions = {
  readonly core: Core
  readonly logger: TransportLogger
  /** A key of at least 32 bytes. All replicas must have the same key. */
  readonly sealingKey: Uint8Array
  readonly now?: () => number
  readonly taskDelayMs?: number
  /** Undefined if there is only one process. */
  readonly peers?: Peers | undefined
}

export function createTransports({
  core,
  logger,
  sealingKey,
  now = Date.now,
  taskDelayMs = 2_000,
  peers,
}: TransportOptions): Transports {
  const calls = createCalls(core)
  const lists = createLists(core)
  const sealer = createSealer(sealingKey, now)
  return {
    core,
    calls,
    lists,
    logger,
    modern: new Modern({ core, calls, lists, logger, sealer, now, taskDelayMs, peers }),
  }
}
