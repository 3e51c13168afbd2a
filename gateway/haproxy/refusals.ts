/**
 * Accepts, on a Unix socket, the connections that HAProxy does not admit or cannot connect to a database. A PROXY
 * protocol header contains the reason and the client's address. The agent sends each client an error in Postgres's
 * protocol. The error depends first on the agent's own rules, then on HAProxy's reason.
 */
import { once } from 'node:events'
import { chmod, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import type { Logger } from 'pino'
import { notAdmitted, notAvailable, outOfTouch, tooMany, tooManyLogins } from '../denial/refusal.ts'
import type { Refuse } from '../denial/refuse.ts'
import { decideConnection, normaliseAddress, type RouteTable } from '../table.ts'
import { reasons, refusalsAtOnce } from './configuration.ts'
import { type ProxyHeader, readProxyHeader } from './proxy-header.ts'

type Refusals = { stop(): Promise<void> }

/** A short time is enough, because HAProxy sends the header at once. */
const headerMs = 1_000

/** @throws Error if the socket cannot be opened */
export async function serveRefusals(options: {
  path: string
  table: () => RouteTable
  admitting: () => boolean
  refuse: Refuse
  /** Called when HAProxy could not connect to the database of this port. */
  onUnreachable: (port: number) => void
  logger: Logger
}): Promise<Refusals> {
  const { path, table, admitting, refuse, onUnreachable, logger } = options

  const take = async (socket: Socket): Promise<void> => {
    const header = await nextHeader(socket)
    const id = header?.kind === 'header' ? /^([0-9]{1,5}) ([a-z-]*)$/.exec(header.uniqueId ?? '') : undefined
    if (header?.kind !== 'header' || !id) {
      socket.destroy()
      return
    }
    const port = Number(id[1])
    const address = normaliseAddress(header.source)
    const found = decideConnection(table(), port, address)
    if (found.kind === 'unknown') {
      socket.destroy()
      return
    }
    const who = { port, address, label: found.label }
    if (!admitting() || id[2] === reasons.closed) refuse(socket, who, 'out-of-touch', outOfTouch)
    else if (found.kind === 'deny') refuse(socket, who, 'denied', notAdmitted(found.label, address))
    else if (id[2] === reasons.tooMany) refuse(socket, who, 'too-many', tooMany(found.label))
    else if (id[2] === reasons.logins) refuse(socket, who, 'too-many-logins', tooManyLogins(found.label, address))
    else {
      // The database does not respond, its Service has no address, or a rule that admits the client was just added.
      if (id[2] !== reasons.denied) onUnreachable(port)
      refuse(socket, who, 'unavailable', notAvailable)
    }
  }

  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => socket.destroy())
    void take(socket)
  })
  server.maxConnections = 2 * refusalsAtOnce
  // The socket of a previous process may exist.
  await rm(path, { force: true })
  server.listen(path)
  await once(server, 'listening')
  await chmod(path, 0o600)
  server.on('error', error => logger.error({ err: error }, 'the socket for refusals failed'))
  return {
    stop: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        for (const socket of open) socket.destroy()
      }),
  }
}

/** Reads the header at the start of a connection. The bytes after it stay unread. */
function nextHeader(socket: Socket): Promise<ProxyHeader | undefined> {
  return new Promise(resolve => {
    let received: Buffer = Buffer.alloc(0)
    const settle = (header: ProxyHeader | undefined): void => {
      clearTimeout(timer)
      socket.off('readable', onReadable).off('end', onEnd).off('close', onEnd)
      resolve(header)
    }
    const timer = setTimeout(() => settle(undefined), headerMs)
    const onEnd = (): void => settle(undefined)
    const onReadable = (): void => {
      const chunk: Buffer | null = socket.read()
      if (chunk === null) return
      received = Buffer.concat([received, chunk])
      const header = readProxyHeader(received)
      if (header.kind === 'incomplete') return
      if (header.kind === 'header' && received.length > header.length) socket.unshift(received.subarray(header.length))
      settle(header)
    }
    socket.on('readable', onReadable).on('end', onEnd).on('close', onEnd)
  })
}
