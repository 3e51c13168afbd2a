/**
 * Serves read-only pages for probes and Prometheus over plain HTTP, without authentication. So it must listen only
 * where authorized clients can connect. Connections, headers and requests are limited.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer } from './node-http.ts'

export type Page = { status: number; type?: string; body?: string }

export const plainText = 'text/plain; charset=utf-8'

const limits = { requestMs: 5_000, keepAliveMs: 1_000, connections: 64, requestsPerSocket: 100, headerBytes: 8 * 1024 }

function answer(request: IncomingMessage, response: ServerResponse, { status, type, body = '' }: Page): void {
  response.writeHead(status, {
    ...(type === undefined ? {} : { 'content-type': type }),
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

/**
 * Creates a server that does not listen yet. `pageAt` returns the page of a path; undefined if the page does not exist.
 */
export function createPageServer(
  pageAt: (path: string) => Page | undefined | Promise<Page | undefined>,
  onError: (error: unknown) => void,
): Server {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    request.resume()
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (!isRead) {
      response.setHeader('allow', 'GET, HEAD')
      return answer(request, response, { status: 405, type: plainText, body: 'only GET and HEAD\n' })
    }
    const page = await pageAt((request.url ?? '').split('?', 1)[0] ?? '')
    answer(request, response, page ?? { status: 404, type: plainText, body: 'not found\n' })
  }
  const server = createServer(
    {
      requestTimeout: limits.requestMs,
      headersTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      maxHeaderSize: limits.headerBytes,
      connectionsCheckingInterval: 1_000,
    },
    (request, response) => {
      serve(request, response).catch(error => {
        onError(error)
        if (response.headersSent) response.destroy()
        else answer(request, response, { status: 500, type: plainText, body: 'internal error\n' })
      })
    },
  )
  server.maxConnections = limits.connections
  server.maxRequestsPerSocket = limits.requestsPerSocket
  return server
}
