/** Measures the cost in Postgres of the requests of bench/rest.ts. No server can reduce this cost. */
import pg from 'pg'
import { entry, thousandEntries } from './rest-database.ts'
import { openLoop } from './rest-load.ts'
import { percentile } from './statistics.ts'

async function withClients<T>(uri: string, connections: number, use: (clients: pg.Client[]) => Promise<T>): Promise<T> {
  const clients = Array.from({ length: connections }, () => new pg.Client(uri))
  await Promise.all(clients.map(client => client.connect()))
  try {
    return await use(clients)
  } finally {
    await Promise.all(clients.map(client => client.end()))
  }
}

const target = 'INSERT INTO entries (name, amount, note) SELECT'
const fromJson = `${target} * FROM json_to_recordset($1::json) AS entry (name text, amount numeric, note text)`

/** Measures inserts per second: of the same JSON, and of rows that Postgres generates. */
export const bulkInsertsAlone = (uri: string, connections: number, seconds: number): Promise<[number, number]> =>
  withClients(uri, connections, async clients => {
    const rate = async (text: string, values: string[]): Promise<number> => {
      const end = performance.now() + seconds * 1_000
      let count = 0
      const insert = async (client: pg.Client) => {
        for (; performance.now() < end; count++) await client.query(text, values)
      }
      await Promise.all(clients.map(insert))
      return count / seconds
    }
    return [
      await rate(fromJson, [thousandEntries]),
      await rate(`${target} 'entry ' || n, n * 0.25, 'a note of some length' FROM generate_series(1, 1000) n`, []),
    ]
  })

/** Sends single inserts in an open loop. @returns p99 in ms, from the time at which an insert is due */
export const insertsAlone = (uri: string, connections: number, seconds: number, perSecond: number): Promise<number> =>
  withClients(uri, connections, async clients => {
    const times: number[] = []
    const json = JSON.stringify([entry(1)])
    const pace = openLoop(perSecond, performance.now() + seconds * 1_000)
    const insert = (client: pg.Client) =>
      new Promise<void>((resolve, reject) => {
        const sender = {
          send(due: number) {
            client.query({ name: 'insert', text: fromJson, values: [json] }).then(() => {
              times.push(performance.now() - due)
              pace(sender)
            }, reject)
          },
          end: resolve,
        }
        pace(sender)
      })
    await Promise.all(clients.map(insert))
    return percentile(times, 0.99)
  })
