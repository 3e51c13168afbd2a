/** Watches databases during a change of their platform: their phases, their sessions, and new connections. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import { type Connection, connect } from '../client.ts'

export type SessionMonitor = {
  /** Sessions that were open from the beginning but no longer answer, by the name of their database. */
  disconnected: Map<string, string>
  /** New connections that failed, with their errors. */
  refused: string[]
  /** New connections that succeeded. */
  admitted: number
  stop(): Promise<void>
}

const sessionsEach = 3
const intervalMs = 250

/** Monitors sessions. Each session repeatedly reads a row, on one connection that it never closes. */
export async function monitorSessions(connections: ReadonlyMap<string, Connection>): Promise<SessionMonitor> {
  const disconnected = new Map<string, string>()
  const refused: string[] = []
  let admitted = 0
  let stopping = false
  const sessions: { name: string; client: Client }[] = []
  for (const [name, connection] of connections) {
    for (let count = 0; count < sessionsEach; count++) sessions.push({ name, client: await connect(connection) })
  }
  const query = async ({ name, client }: (typeof sessions)[number]) => {
    while (!stopping && !disconnected.has(name)) {
      await client.query('SELECT 1').catch(error => disconnected.set(name, String(error)))
      await sleep(intervalMs)
    }
    await client.end().catch(() => {})
  }
  const comeAndGo = async ([name, connection]: [string, Connection]) => {
    while (!stopping) {
      try {
        const client = await connect(connection)
        await client.query('SELECT 1')
        await client.end()
        admitted++
      } catch (error) {
        refused.push(`${new Date().toISOString()} ${name}: ${error}`)
      }
      await sleep(4 * intervalMs)
    }
  }
  const running = Promise.all([...sessions.map(query), ...[...connections].map(comeAndGo)])
  return {
    disconnected,
    refused,
    get admitted() {
      return admitted
    },
    stop: async () => {
      stopping = true
      await running
    },
  }
}
