/** The admin server: whether the service lives and is ready, and its figures. Not for the public; it has no authentication, so it listens where it is told to and nowhere else. */
import type { Server } from 'node:http'
import { createPageServer, type Page, plainText } from '../../server/pages.ts'

type AdminFacts = {
  /** Whether the service accepts connections. */
  isLive(): boolean
  /** Whether it can answer from what it knows. */
  isReady(): boolean
  metrics(): Promise<string>
  /** The configuration in force, without its secrets; there is no such page where it is not given. */
  readonly configuration: (() => string) | undefined
}

async function pageAt(path: string, facts: AdminFacts): Promise<Page | undefined> {
  switch (path) {
    case '/live':
      return { status: facts.isLive() ? 200 : 500 }
    case '/ready':
      return { status: facts.isReady() ? 200 : 503 }
    case '/metrics':
      return { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', body: await facts.metrics() }
    case '/config':
      return facts.configuration && { status: 200, type: plainText, body: facts.configuration() }
    default:
      return undefined
  }
}

/** Not listening yet. A page that cannot be made is answered with 500. */
export const makeAdminServer = (facts: AdminFacts): Server =>
  createPageServer(
    path => pageAt(path, facts),
    () => {},
  )
