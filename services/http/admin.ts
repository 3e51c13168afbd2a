/**
 * The admin server: liveness, readiness, metrics, configuration and schema cache. It has no authentication.
 * Configure an address that only authorized clients can reach.
 */
import type { Server } from 'node:http'
import { createPageServer, type Page, plainText } from '../../server/pages.ts'

type AdminFacts = {
  /** Whether the service accepts connections. */
  isLive(): boolean
  /** Whether the schema cache is loaded, so that the service can answer requests. */
  isReady(): boolean
  /** Whether an API request that used the database has succeeded. Undefined: `/ready/database` returns 404. */
  readonly hasAnswered?: (() => Promise<boolean>) | undefined
  metrics(): Promise<string>
  /** The active configuration, without secrets. Undefined: the page does not exist. */
  readonly configuration: (() => string) | undefined
  /**
   * The schema cache as JSON; undefined while it is not loaded. If this function is missing, the page does not exist.
   */
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
    case '/ready/database':
      return facts.hasAnswered && { status: (await facts.hasAnswered()) ? 200 : 503 }
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

/** The returned server does not listen yet. If a page fails, the response is 500. */
export const makeAdminServer = (facts: AdminFacts): Server =>
  createPageServer(
    path => pageAt(path, facts),
    () => {},
  )
