/**
 * Writers that continue over kills. Each writer reconnects until it is stopped, and detects rows that were lost or that
 * a restore undid.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { accounts, balance, ledgerSchema, transfer, writerCount } from '../../operator/postgres/testing/ledger.ts'
import { type Connection, connect, eventually } from '../client.ts'
import {
  acknowledge,
  acknowledgedIn,
  beginPeriod,
  isOfWindow,
  type Moment,
  missingOf,
  newHistory,
  notUndone,
  pointOf,
  type Window,
} from './history.ts'

const pauseMs = 15
const reconnectMs = 150
/** Extra characters in the log row of each step. */
const padding = 5
const servesWithinMs = 10 * 60_000
/** Timeouts that also end a session whose peer has disappeared silently. */
const longTimeouts = { query_timeout: 30_000, connectionTimeoutMillis: 15_000 }

/** A restore in place from a copy of `backup`, requested at `requested`. */
type Restore = { backup: Window; requested: Moment }

export type Writers = Awaited<ReturnType<typeof startWriters>>

type Rows = Map<number, Set<number>>

/** The numbers of the existing steps, by writer. */
async function rowsOf(client: pg.Client): Promise<Rows> {
  const { rows } = await client.query<{ writer: number; n: number }>('SELECT writer, n FROM trace')
  const byWriter = Map.groupBy(rows, ({ writer }) => writer)
  return new Map(
    Array.from({ length: writerCount }, (_, writer) => [
      writer,
      new Set((byWriter.get(writer) ?? []).map(({ n }) => n)),
    ]),
  )
}

/** Returns damage: a changed sum of money, or findings of amcheck. `client`: a session of the role admin. */
async function damageOf(client: pg.Client): Promise<string[]> {
  const { rows: sums } = await client.query('SELECT sum(balance)::int AS sum, count(*)::int AS count FROM account')
  const isRight = sums[0]?.sum === accounts * balance && sums[0]?.count === accounts
  const indexes = `SELECT espalier.bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
    WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relnamespace = 'public'::regnamespace`
  const heaps = `SELECT c.relname, v.msg FROM pg_class c, espalier.verify_heapam(c.oid) v
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`
  await client.query(indexes)
  const { rows } = await client.query(heaps)
  return [...(isRight ? [] : [`the accounts hold ${JSON.stringify(sums)}`]), ...rows.map(row => JSON.stringify(row))]
}

/** `connection`: reads the connection from the API each time, since passwords are rotated. */
export async function startWriters(connection: (userType: 'application' | 'admin') => Promise<Connection>) {
  await eventually('the schema of the ledger exists', async () => {
    const client = await connect(await connection('application'), longTimeouts)
    try {
      const { rows } = await client.query("SELECT to_regclass('public.trace') AS made")
      // One string of several statements is one transaction.
      if (rows[0]?.made === null) await client.query(ledgerSchema)
      return true
    } finally {
      await client.end()
    }
  })
  const histories = Array.from({ length: writerCount }, newHistory)
  const restores: Restore[] = []
  const faults: string[] = []
  let stop = new AbortController()
  let writing: Promise<unknown> = Promise.resolve()

  /** Compares the rows with the acknowledged rows. A restore must explain missing rows. */
  function compare(writer: number, present: ReadonlySet<number>): void {
    const history = histories[writer]
    if (history === undefined) return
    const missing = missingOf(history, present)
    if (missing.length === 0) return
    const isRestored = restores.some(({ backup: { from, to } }) => {
      const [first, last] = [from[writer], to[writer]]
      return first !== undefined && last !== undefined && isOfWindow(history, present, first, last)
    })
    if (!isRestored)
      faults.push(`writer ${writer}: ${missing.length} acknowledged rows are lost, such as ${missing[0]}`)
    beginPeriod(history, present)
  }

  async function session(writer: number, history: ReturnType<typeof newHistory>): Promise<void> {
    const client = await connect(await connection('application'), longTimeouts)
    try {
      compare(writer, (await rowsOf(client)).get(writer) ?? new Set())
      while (!stop.signal.aborted) {
        history.attempted += 1
        const n = history.attempted
        await transfer(client, writer, n, padding)
        acknowledge(history, n)
        await sleep(pauseMs)
      }
    } finally {
      await client.end().catch(() => {}) // the session has ended in any case
    }
  }
  async function write(writer: number, history: ReturnType<typeof newHistory>): Promise<void> {
    while (!stop.signal.aborted) {
      // Kills end sessions, and new sessions are refused for a while. This is part of the test.
      await session(writer, history).catch(() => sleep(reconnectMs))
    }
  }
  const resume = (): void => {
    stop = new AbortController()
    writing = Promise.all(histories.map((history, writer) => write(writer, history)))
  }
  const pause = async (): Promise<void> => {
    stop.abort()
    await writing
  }
  /** Inspects a database or a copy of it. */
  const withClient = <T>(from: () => Promise<Connection>, work: (client: pg.Client) => Promise<T>): Promise<T> =>
    eventually(
      'the database answers',
      async () => {
        const client = await connect(await from(), longTimeouts)
        try {
          return await work(client)
        } finally {
          await client.end().catch(() => {})
        }
      },
      servesWithinMs,
    )

  resume()
  return {
    resume,
    pause,
    moment: (): Moment => histories.map(pointOf),
    acknowledged: () => histories.reduce((sum, history) => sum + acknowledgedIn(history), 0),
    restoring: (restore: Restore): void => void restores.push(restore),

    /** Call this while the writers pause. @returns problems of the database itself */
    async settle(undone: readonly Restore[]): Promise<string[]> {
      const found = await withClient(
        () => connection('admin'),
        async client => ({
          rows: await rowsOf(client),
          damage: await damageOf(client),
        }),
      )
      for (const [writer, present] of found.rows) {
        const history = histories[writer]
        if (history === undefined) continue
        compare(writer, present)
        for (const { backup, requested } of undone) {
          const [taken, restored] = [backup.to[writer], requested[writer]]
          if (taken === undefined || restored === undefined) continue
          const remaining = notUndone(history, present, taken, restored)
          if (remaining.length > 0)
            faults.push(`writer ${writer}: a restore left ${remaining.length} rows of after its backup`)
        }
      }
      restores.length = 0
      return [...faults.splice(0), ...found.damage]
    },

    /** Call this after `settle`. @returns problems of a copy of the database */
    async faultsOf(copy: () => Promise<Connection>, { from, to }: Window): Promise<string[]> {
      const found = await withClient(copy, async client => ({
        rows: await rowsOf(client),
        damage: await damageOf(client),
      }))
      const wrong = [...found.rows].flatMap(([writer, present]) => {
        const [history, first, last] = [histories[writer], from[writer], to[writer]]
        if (history === undefined || first === undefined || last === undefined) return []
        if (isOfWindow(history, present, first, last)) return []
        const point = JSON.stringify({ first, last, lives: history.periods.length, present: present.size })
        return [`writer ${writer}: the copy is of no instant between request and end: ${point}`]
      })
      return [...wrong, ...found.damage]
    },
  }
}
