/**
 * The load of operator/postgres/testing/ledger.ts on a database of the cluster. A copy is consistent where no money came or went, every
 * step has its trace, and it has all that was acknowledged before it was asked for and nothing that came after it was there.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { accounts, balance, ledgerSchema, transfer, writerCount } from '../../operator/postgres/testing/ledger.ts'
import { type Connection, connect, query } from '../client.ts'

/** Between two steps of a writer: the machine has other things to do as well. */
const pauseMs = 20

/** Of a step's trace. */
const padding = 5

/** The last step of each writer that was acknowledged. */
export type Position = readonly number[]

export type Ledger = {
  position(): Position
  /** The longest time in which nothing was acknowledged, in ms. */
  longestGapMs(): number
  /** @throws what a writer met: none of them ever tries again */
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
  writing.catch(() => {}) // told to whoever stops it
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

/** What does not fit together in a copy. `client`: the superuser's, in the copy; `between`: when it was asked for, and when it was there. */
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
    // The transaction under way may be in it, acknowledged or not.
    if (n < from || n > to + 1) faults.push(`writer ${writer}: step ${n}, which is not from ${from} to ${to}`)
  }
  return [...faults, ...(await damageOf(client))]
}

/** What amcheck says of tables and indexes. */
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
