/**
 * The load of operator/postgres/testing/ledger.ts on a database of the cluster. A copy is consistent if the sum of
 * money is unchanged, every step has its log row, and it has everything acknowledged before its request and nothing
 * written after it existed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { accounts, balance, ledgerSchema, transfer, writerCount } from '../../operator/postgres/testing/ledger.ts'
import { type Connection, connect, query } from '../client.ts'

/** Between two steps of a writer: the machine has other work too. */
const pauseMs = 20

/** Of a step's log. */
const padding = 5

/** The last acknowledged step of each writer. */
export type Position = readonly number[]

export type Ledger = {
  position(): Position
  /** The longest time without an acknowledgement, in ms. */
  longestGapMs(): number
  /** @throws a writer's error: writers never retry */
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
  writing.catch(() => {}) // reported to the caller that stops it
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
 * Inconsistencies of a copy. `client`: the superuser's, in the copy; `between`: when it was requested, and when it
 * existed.
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
    // The running transaction may be included, acknowledged or not.
    if (n < from || n > to + 1) faults.push(`writer ${writer}: step ${n}, which is not from ${from} to ${to}`)
  }
  return [...faults, ...(await damageOf(client))]
}

/** amcheck's results for tables and indexes. */
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
