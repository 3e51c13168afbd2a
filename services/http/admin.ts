/** The admin server: whether the service lives and is ready, its figures, and what it knows of the database. Not for the public; it has no authentication, so it listens where it is told to and nowhere else. */
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
  /** The schema cache as JSON, undefined while there is none; there is no such page where this is not given. */
  readonly schemaCache?: (() => Promise<string | undefined>) | undefined
}

async function schemaCachePage({ schemaCache }: AdminFacts): Promise<Page | undefined> {
  if (schemaCache === undefined) return undefined
  const body = await schemaCache()
  return body === undefined ? { status: 503 } : { status: 200, type: 'application/json; charset=utf-8', body }
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
    case '/schema_cache':
      return schemaCachePage(facts)
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
