/**
 * Detects that a client disconnects, or has disconnected already. The API handles a request only after several checks,
 * so this may have happened before.
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'

/**
 * Callbacks by connection. If a connection is lost, Node does not close a response that waits for an earlier response
 * of this connection.
 */
const bySocket = new WeakMap<Socket, Set<() => void>>()

function callbacksOf(socket: Socket): Set<() => void> {
  const known = bySocket.get(socket)
  if (known !== undefined) return known
  const callbacks = new Set<() => void>()
  bySocket.set(socket, callbacks)
  socket.once('close', () => {
    for (const callback of callbacks) callback()
  })
  return callbacks
}

type Ended = { readonly raw: Pick<ServerResponse, 'closed' | 'once' | 'req'> }

/**
 * Calls back once, when the response has ended or its connection is closed. If this happened before, calls back
 * immediately.
 */
export function onceClosed({ raw: response }: Ended, callback: () => void): void {
  const { socket } = response.req
  if (response.closed || socket.destroyed) {
    callback()
    return
  }
  const callbacks = callbacksOf(socket)
  const end = () => {
    if (callbacks.delete(end)) callback()
  }
  callbacks.add(end)
  response.once('close', end)
}

/** Aborts when the response has ended or the client has disconnected. */
export function disconnected(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  onceClosed(reply, () => controller.abort())
  return controller.signal
}
