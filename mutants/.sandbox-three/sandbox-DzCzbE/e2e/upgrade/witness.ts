/** Watches databases while something is done to what runs them: their phases, their sessions, and who is let in anew. */
// @ts-nocheck

import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from 'pg'
import { type Connection, connect } from '../client.ts'

export type Witness = {
  /** Sessions that were open from the beginning and answer no more, by the name of their database. */
  cut: Map<string, string>
  /** New connections that failed, with what they were told. */
  refused: string[]
  /** New connections that succeeded. */
  admitted: number
  stop(): Promise<void>
}

const sessionsEach = 3
const intervalMs = 250

/** Each session asks for a row, over and over, on a connection it never gives up. */
export async function witness(connections: ReadonlyMap<string, Connection>): Promise<Witness> {
  const cut = new Map<string, string>()
  const refused: string[] = []
  let admitted = 0
  let stopping = false
  const held: { name: string; client: Client }[] = []
  for (const [name, connection] of connections) {
    for (let count = 0; count < sessionsEach; count++) held.push({ name, client: await connect(connection) })
  }
  const hold = async ({ name, client }: (typeof held)[number]) => {
    while (!stopping && !cut.has(name)) {
      await client.query('SELECT 1').catch(error => cut.set(name, String(error)))
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
  const running = Promise.all([...held.map(hold), ...[...connections].map(comeAndGo)])
  return {
    cut,
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
