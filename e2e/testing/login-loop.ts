/** A thread that logs in repeatedly, and reports when each login began and ended, in ms since the epoch. */
import { parentPort, workerData } from 'node:worker_threads'
import { type Connection, connect } from '../client.ts'

export type TimedLogin = { began: number; ended: number }

const connection: Connection = workerData
for (;;) {
  const began = Date.now()
  const client = await connect(connection)
  parentPort?.postMessage({ began, ended: Date.now() } satisfies TimedLogin)
  await client.end()
}
