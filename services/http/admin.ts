/** The admin server: whether the service lives and is ready, and its figures. Not for the public; it has no authentication, so it listens where it is told to and nowhere else. */
import { createServer, type Server } from 'node:http'

export type AdminFacts = {
  /** Whether the service accepts connections. */
  isLive(): boolean
  /** Whether it can answer from what it knows. */
  isReady(): boolean
  metrics(): Promise<string>
  /** The configuration in force, without its secrets. */
  configuration(): string
}

async function page(path: string, facts: AdminFacts): Promise<{ status: number; type?: string; body?: string }> {
  switch (path) {
    case '/live':
      return { status: facts.isLive() ? 200 : 500 }
    case '/ready':
      return { status: facts.isReady() ? 200 : 503 }
    case '/metrics':
      return { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', body: await facts.metrics() }
    case '/config':
      return { status: 200, type: 'text/plain; charset=utf-8', body: facts.configuration() }
    default:
      return { status: 404 }
  }
}

export function makeAdminServer(facts: AdminFacts): Server {
  return createServer((request, response) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    const found = isRead ? page((request.url ?? '/').split('?')[0] ?? '/', facts) : Promise.resolve({ status: 405 })
    found
      .then(({ status, type, body = '' }: { status: number; type?: string; body?: string }) => {
        response.writeHead(status, type === undefined ? {} : { 'Content-Type': type })
        response.end(request.method === 'HEAD' ? undefined : body)
      })
      .catch(() => response.writeHead(500).end())
  })
}
