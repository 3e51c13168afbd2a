/**
 * HAProxy as the data plane of a replica. One loop owns the connection to its runtime API and what is known of its maps.
 * A connection that is new, or on which anything was not answered as expected, knows nothing: everything is pushed
 * again, each map in one transaction, so that a HAProxy which goes on admitting meanwhile never does so by half a map.
 * The deadline comes last; a HAProxy that has just started admits nobody before it.
 *
 * Nothing is in force while HAProxy cannot be reached: then no Lease is renewed, and none is acknowledged.
 */
// @ts-nocheck

import type { Logger } from 'pino'
import { backoffMs, sleep, systemClock } from '../../cluster/informer/clock.ts'
import type { RouteTarget } from '../../routes/route.ts'
import type { DataPlane } from '../plane.ts'
import type { RouteTable } from '../table.ts'
import type { PortRange } from './configuration.ts'
import {
  addCommands,
  contentOf,
  createEndpointBook,
  deadlineContent,
  type Endpoints,
  isWithin,
  type MapContent,
  planMaps,
  setDeadline,
} from './maps.ts'
import type { Paths } from './paths.ts'
import { connectRuntime, type RuntimeConnection, type RuntimeLimits, runtimeLimits } from './runtime.ts'

type HaproxyPlane = DataPlane & {
  /** A target's address may have changed. */
  retarget(): void
  /** Why HAProxy does not have what it should have; undefined where it does. */
  problem(): string | undefined
  /** Lets go of HAProxy, and leaves it as it is. */
  stop(): Promise<void>
}

/** HAProxy said something else than expected to a command. */
class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/** Commands on their way at once: enough that neither side waits, little enough to be read in time. */
const window = 32
const retryDelays = { minimumMs: 100, maximumMs: 2_000 }
/** How long a caller waits for a change to be in force; a push of everything is done well within it. */
const inForceMs = 20_000

export function createHaproxyPlane(options: {
  paths: Paths
  ports: PortRange
  addressOf: (target: RouteTarget) => string | undefined
  /** Whether targets are known; before, nothing is pushed. */
  resolvable: () => boolean
  limits?: RuntimeLimits | undefined
  /** HAProxy has everything again. */
  onRecovered: () => void
  onPushed?: ((push: { all: boolean; seconds: number }) => void) | undefined
  logger: Logger
}): HaproxyPlane {
  const { paths, ports, logger, limits = runtimeLimits } = options
  const book = createEndpointBook(ports, options.addressOf)
  const stopping = new AbortController()
  /** What should be. */
  let table: RouteTable | undefined
  /** Undefined: what HAProxy has from before stands. It ends by itself, no later than the Lease it came with. */
  let deadlineSeconds: number | undefined
  let closed = false
  /** Counts what should be; `done` is the last of it that HAProxy has. */
  let wanted = 0
  let done = -1
  let problem: string | undefined = 'HAProxy has not been reached yet'
  let wake = Promise.withResolvers<void>()
  const waiters = new Set<{ for: number; resolve: () => void; reject: (error: Error) => void }>()
  stopping.signal.addEventListener('abort', () => wake.resolve())

  const change = (): void => {
    wanted++
    wake.resolve()
  }
  const settle = (): void => {
    for (const waiter of waiters) if (waiter.for <= done) waiter.resolve()
  }
  const fail = (reason: string): void => {
    problem = reason
    for (const waiter of waiters) waiter.reject(new Error(`the rules are not in force: ${reason}`))
  }
  const untilDone = (ms: number): Promise<void> => {
    if (stopping.signal.aborted) return Promise.reject(new Error('the gateway has stopped'))
    if (done >= wanted) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        clearTimeout(timer)
        waiters.delete(waiter)
      }
      const waiter = {
        for: wanted,
        resolve: () => {
          finish()
          resolve()
        },
        reject: (error: Error) => {
          finish()
          reject(error)
        },
      }
      const timer = setTimeout(() => waiter.reject(new Error('HAProxy takes its rules too slowly')), ms)
      waiters.add(waiter)
    })
  }

  /** Runs the loop over one connection until it is over, or HAProxy answers otherwise than it should. */
  const serve = async (connection: RuntimeConnection): Promise<void> => {
    let have: Endpoints | undefined
    let haveDeadline: number | undefined
    let isOver = false
    void connection.over.then(() => {
      isOver = true
      wake.resolve()
    })

    const moveDeadline = async (to: number): Promise<void> => {
      if (haveDeadline === undefined) await replaceMap(connection, deadlineContent(paths, to))
      else await expectDone(connection, [setDeadline(paths, to)])
      haveDeadline = to
    }
    const push = async (endpoints: Endpoints): Promise<void> => {
      const began = performance.now()
      const all = have === undefined
      if (have === undefined) for (const content of contentOf(paths, endpoints)) await replaceMap(connection, content)
      else await expectDone(connection, planMaps(paths, have, endpoints))
      have = endpoints
      options.onPushed?.({ all, seconds: (performance.now() - began) / 1000 })
    }
    const round = async (): Promise<void> => {
      const until = deadlineSeconds
      // Closing does not wait for a push; opening does.
      if (until === 0 && haveDeadline !== 0) await moveDeadline(0)
      if (table === undefined) await expectAnswer(connection)
      else {
        await push(book.endpoints(table))
        if (until !== undefined && until !== haveDeadline) await moveDeadline(until)
      }
    }

    while (!isOver && !stopping.signal.aborted) {
      wake = Promise.withResolvers()
      if (stopping.signal.aborted) return
      if (done >= wanted && !isOver) await wake.promise
      else if (options.resolvable()) {
        const target = wanted
        await round()
        done = target
        if (problem !== undefined) {
          logger.info({ routes: table?.size }, 'HAProxy has all rules')
          problem = undefined
          options.onRecovered()
        }
        settle()
      } else await wake.promise
    }
  }

  const run = async (): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      const connection = await connectRuntime(paths.runtime, limits)
      done = -1
      if ('kind' in connection) fail(`HAProxy cannot be reached (${connection.reason})`)
      else {
        try {
          await serve(connection)
          fail(`HAProxy is gone (${stopping.signal.aborted ? 'stopping' : await connection.over})`)
          failures = 0
        } catch (error) {
          fail(error instanceof Error ? error.message : String(error))
        }
        connection.close()
      }
      if (stopping.signal.aborted) return
      failures++
      logger.warn({ failures, problem }, 'HAProxy does not have the rules; trying again')
      await sleep(systemClock, backoffMs(failures, retryDelays), stopping.signal)
    }
  }
  const running = run()

  return {
    put: next => {
      table = next
      change()
    },
    inForce: async () => {
      await untilDone(inForceMs)
      const refusedPorts = [...(table?.keys() ?? [])].filter(port => !isWithin(ports, port))
      return { refusedPorts: refusedPorts.sort((left, right) => left - right) }
    },
    admitUntil: deadline => {
      const seconds = Math.max(0, Math.floor(deadline / 1000))
      if (closed || seconds === deadlineSeconds) return
      deadlineSeconds = seconds
      change()
    },
    close: async () => {
      closed = true
      deadlineSeconds = 0
      change()
      return await untilDone(limits.answerMs).then(
        () => true,
        () => false,
      )
    },
    retarget: change,
    problem: () => problem,
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}

/** Sends commands whose only right answer is none. @throws RefusedError */
async function expectDone(connection: RuntimeConnection, commands: readonly string[]): Promise<void> {
  for (let at = 0; at < commands.length; at += window) {
    const sent = commands.slice(at, at + window)
    const answers = await Promise.all(sent.map(command => connection.command(command)))
    for (const answer of answers)
      if (textOf(answer) !== '') throw new RefusedError(`HAProxy answered: ${textOf(answer)}`)
  }
}

/** Whether the process is there. @throws RefusedError */
async function expectAnswer(connection: RuntimeConnection): Promise<void> {
  textOf(await connection.command('show info'))
}

/** Puts exactly these lines into a map, from one moment to the next. @throws RefusedError */
async function replaceMap(connection: RuntimeConnection, { map, lines }: MapContent): Promise<void> {
  const prepared = textOf(await connection.command(`prepare map ${map}`))
  const version = /^New version created: ([0-9]+)$/.exec(prepared)?.[1]
  if (version === undefined) throw new RefusedError(`HAProxy answered: ${prepared}`)
  await expectDone(connection, addCommands(map, version, lines))
  await expectDone(connection, [`commit map @${version} ${map}`])
}

function textOf(answer: Awaited<ReturnType<RuntimeConnection['command']>>): string {
  if (answer.kind === 'lost') throw new RefusedError(`HAProxy is gone (${answer.reason})`)
  return answer.text.slice(0, 300)
}
