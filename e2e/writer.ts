/** Commits one row after another, so that tests have writes during other actions. */
import { type Connection, connect } from './client.ts'

type Writer = {
  /** The number of committed rows. */
  count(): number
  /** @returns the number of rows, and the longest time between two commits. @throws a writer's error */
  stop(): Promise<{ count: number; longestMs: number }>
}

/** Writes rows `n, text` into a table `entry`, until it is stopped. */
export async function writeTo(connection: Connection): Promise<Writer> {
  const client = await connect(connection)
  await client.query('CREATE TABLE IF NOT EXISTS entry (n int PRIMARY KEY, text text NOT NULL)')
  let isStopped = false
  let count = 0
  let longestMs = 0
  const writing = (async () => {
    for (let last = performance.now(); !isStopped; count++) {
      await client.query("INSERT INTO entry VALUES ($1, repeat('x', 500))", [count])
      const now = performance.now()
      longestMs = Math.max(longestMs, now - last)
      last = now
    }
  })()
  writing.catch(() => {}) // the caller that stops it gets the error
  return {
    count: () => count,
    stop: async () => {
      isStopped = true
      await writing
      await client.end()
      return { count, longestMs }
    },
  }
}
