/**
 * The load of operator/postgres/testing/ledger.ts on a database of the cluster. A copy is consistent if the sum of
 * money is unchanged and every step has its log row. It must contain everything that was acknowledged before its
 * request, and nothing that was written after it existed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { accounts, balance, ledgerSchema, transfer, writerCount } from '../../operator/postgres/testing/ledger.ts'
import { type Connection, connect, query } from '../client.ts'

/** The pause between two steps of a writer, because the machine has other work too. */
const pauseMs = 20

/** Extra characters in the log row of each step. */
const padding = 5

/** The last acknowledged step of each writer. */
export type Position = readonly number[]

export type Ledger = {
  position(): Position
  /** The longest time without an acknowledgement, in ms. */
  longestGapMs(): number
  /** @throws a writer's error, because writers never retry */
  stop(): Promise<void>
}

export async function startLedger(connection: Connection): Promise<Ledger> {
  await query(connection, ledgerSchema)
  const acknowledged = Array.from({ length: writerCount }, () => 0)
  let isStopped = false
  let last = performance.now()
  let longestGapMs = 0

  const step = async (client: pg.Client, writer: number, n: number) => {
    await transfer(client, writer, n, padding)
    acknowledged[writer] = n
    const now = performance.now()
    longestGapMs = Math.max(longestGapMs, now - last)
    last = now
  }
  const write = async (writer: number) => {
    const client = await connect(connection)
    try {
      for (let n = 1; !isStopped; n += 1) {
        await step(client, writer, n)
        await sleep(pauseMs)
      }
    } finally {
      await client.end()
    }
  }
  const writing = Promise.all(acknowledged.map((_, writer) => write(writer)))
  writing.catch(() => {}) // the caller that stops it gets the error
  return {
    position: () => [...acknowledged],
    longestGapMs: () => longestGapMs,
    stop: async () => {
      isStopped = true
      await writing
    },
  }
}

type Counted = { writer: number; n: number; traces: number; last: number }

const indexes = `
  SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
  WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relpersistence = 'p'`
const heaps = `
  SELECT c.relname, v.msg FROM pg_class c, verify_heapam(c.oid) v
  WHERE c.relkind = 'r' AND c.relpersistence = 'p'`

/**
 * The inconsistencies of a copy. `client`: the superuser's session in the copy. `between`: when the copy was requested,
 * and when it existed.
 */
export async function faultsOf(client: pg.Client, between: { from: Position; to: Position }): Promise<string[]> {
  const faults: string[] = []
  const { rows: sums } = await client.query('SELECT sum(balance)::int AS sum, count(*)::int AS count FROM account')
  if (sums[0]?.sum !== accounts * balance || sums[0]?.count !== accounts)
    faults.push(`the accounts hold ${JSON.stringify(sums)}`)
  const { rows } = await client.query<Counted>(`
    SELECT step.writer, step.n, count(trace.n)::int AS traces, coalesce(max(trace.n), 0) AS last
    FROM step LEFT JOIN trace USING (writer) GROUP BY step.writer, step.n`)
  if (rows.length !== writerCount) faults.push(`${rows.length} writers`)
  for (const { writer, n, traces, last } of rows) {
    const [from = 0, to = 0] = [between.from[writer], between.to[writer]]
    if (traces !== n || last !== n) faults.push(`writer ${writer}: step ${n}, ${traces} traces, the last ${last}`)
    // The copy may contain the transaction that was running, acknowledged or not.
    if (n < from || n > to + 1) faults.push(`writer ${writer}: step ${n}, which is not from ${from} to ${to}`)
  }
  return [...faults, ...(await damageOf(client))]
}

/** The findings of amcheck for tables and indexes. */
async function damageOf(client: pg.Client): Promise<string[]> {
  try {
    await client.query('CREATE EXTENSION IF NOT EXISTS amcheck')
    await client.query('SET search_path = public, espalier')
    await client.query(indexes)
    const { rows } = await client.query(heaps)
    return rows.map(row => JSON.stringify(row))
  } catch (error) {
    return [`amcheck: ${error}`]
  }
}
