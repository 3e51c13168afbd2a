/**
 * One TCP listener per routed port. If another program uses a port, the gateway retries with growing delays, and
 * reports the port meanwhile. Closing a listener keeps the connections that it accepted.
 */
import { createServer, type Server, type Socket } from 'node:net'
import type { Logger } from 'pino'
import { backoffMs } from '../cluster/informer/clock.ts'
import { keepAliveMs } from './session.ts'

const retryDelays = { minimumMs: 500, maximumMs: 30_000 }

type Listeners = {
  /** Listens on exactly these ports from now on. */
  setPorts(ports: ReadonlySet<number>): void
  /** Resolves once each port has a listener or has been refused. */
  opened(): Promise<void>
  /** The ports without a listener because it could not be opened, ascending. */
  refused(): number[]
  /** Stops listening permanently; later calls have no effect. */
  close(): void
}

type Listener = { server?: Server; retry?: NodeJS.Timeout; failures: number }

export function createListeners(options: {
  host: string
  onConnection: (port: number, socket: Socket) => void
  /** Called when a port that was refused now has a listener. */
  onRecovered: () => void
  logger: Logger
}): Listeners {
  const { host, onConnection, onRecovered, logger } = options
  const listeners = new Map<number, Listener>()
  const opening = new Set<Promise<void>>()
  let closed = false

  const open = (port: number, listener: Listener): Promise<void> =>
    new Promise(resolve => {
      const server = createServer(
        { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs },
        socket => onConnection(port, socket),
      )
      listener.server = server
      server.on('close', resolve)
      server.once('listening', () => {
        if (listener.failures > 0) logger.info({ port }, 'the port is free again; listening')
        const recovered = listener.failures > 0
        listener.failures = 0
        server.on('error', error => logger.error({ port, err: error }, 'cannot accept a connection'))
        resolve()
        if (recovered) onRecovered()
      })
      server.once('error', error => {
        if (server.listening || listeners.get(port) !== listener) return resolve()
        listener.failures++
        const delay = backoffMs(listener.failures, retryDelays)
        logger.warn({ port, failures: listener.failures, err: error }, 'cannot listen on a routed port; retrying')
        listener.retry = setTimeout(() => void open(port, listener), delay)
        resolve()
      })
      server.listen({ port, host, backlog: 1024 })
    })

  const close = (port: number, listener: Listener): void => {
    listeners.delete(port)
    clearTimeout(listener.retry)
    listener.server?.close()
  }

  return {
    setPorts: ports => {
      if (closed) return
      for (const [port, listener] of listeners) if (!ports.has(port)) close(port, listener)
      for (const port of ports) {
        if (listeners.has(port)) continue
        const listener: Listener = { failures: 0 }
        listeners.set(port, listener)
        const opened = open(port, listener).finally(() => opening.delete(opened))
        opening.add(opened)
      }
    },
    opened: async () => {
      await Promise.all(opening)
    },
    refused: () =>
      [...listeners]
        .filter(([, { failures }]) => failures > 0)
        .map(([port]) => port)
        .sort((left, right) => left - right),
    close: () => {
      closed = true
      for (const [port, listener] of listeners) close(port, listener)
    },
  }
}
