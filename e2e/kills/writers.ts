/** Writers that go on over kills: each connects again until it is stopped, and notices what is lost or was undone by a restore. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { accounts, balance, ledgerSchema, transfer, writerCount } from '../../operator/postgres/testing/ledger.ts'
import { type Connection, connect, eventually } from '../client.ts'
import {
  acknowledge,
  acknowledgedIn,
  beginLife,
  isOfWindow,
  type Moment,
  missingOf,
  newTrail,
  notUndone,
  pointOf,
  type Window,
} from './history.ts'

const pauseMs = 15
const reconnectMs = 150
/** Of a step's trace. */
const padding = 5
const servesWithinMs = 10 * 60_000
/** A session whose peer has gone without a word ends all the same. */
const patient = { query_timeout: 30_000, connectionTimeoutMillis: 15_000 }

/** A restore in place of a copy of `backup`, asked for at `asked`. */
type Restore = { backup: Window; asked: Moment }

export type Writers = Awaited<ReturnType<typeof startWriters>>

type Rows = Map<number, Set<number>>

/** The numbers of the steps that are there, by writer. */
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

/** No money came or went, and amcheck finds nothing. `client`: the role admin's. */
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

/** `connection`: reads it from the API each time, since passwords are rotated. */
export async function startWriters(connection: (userType: 'application' | 'admin') => Promise<Connection>) {
  await eventually('the schema', async () => {
    const client = await connect(await connection('application'), patient)
    try {
      const { rows } = await client.query("SELECT to_regclass('public.trace') AS made")
      // One string of several statements is one transaction.
      if (rows[0]?.made === null) await client.query(ledgerSchema)
      return true
    } finally {
      await client.end()
    }
  })
  const trails = Array.from({ length: writerCount }, newTrail)
  const restores: Restore[] = []
  const faults: string[] = []
  let stop = new AbortController()
  let writing: Promise<unknown> = Promise.resolve()

  /** Compares what is there with what was acknowledged. Where rows are missing, a restore must explain it. */
  function compare(writer: number, present: ReadonlySet<number>): void {
    const trail = trails[writer]
    if (trail === undefined) return
    const missing = missingOf(trail, present)
    if (missing.length === 0) return
    const isRestored = restores.some(({ backup: { from, to } }) => {
      const [first, last] = [from[writer], to[writer]]
      return first !== undefined && last !== undefined && isOfWindow(trail, present, first, last)
    })
    if (!isRestored)
      faults.push(`writer ${writer}: ${missing.length} acknowledged rows are lost, such as ${missing[0]}`)
    beginLife(trail, present)
  }

  async function session(writer: number, trail: ReturnType<typeof newTrail>): Promise<void> {
    const client = await connect(await connection('application'), patient)
    try {
      compare(writer, (await rowsOf(client)).get(writer) ?? new Set())
      while (!stop.signal.aborted) {
        trail.attempted += 1
        const n = trail.attempted
        await transfer(client, writer, n, padding)
        acknowledge(trail, n)
        await sleep(pauseMs)
      }
    } finally {
      await client.end().catch(() => {}) // the session is over either way
    }
  }
  async function write(writer: number, trail: ReturnType<typeof newTrail>): Promise<void> {
    while (!stop.signal.aborted) {
      // Kills end sessions, and refuse new ones for a while: that is what is tried here.
      await session(writer, trail).catch(() => sleep(reconnectMs))
    }
  }
  const resume = (): void => {
    stop = new AbortController()
    writing = Promise.all(trails.map((trail, writer) => write(writer, trail)))
  }
  const pause = async (): Promise<void> => {
    stop.abort()
    await writing
  }
  /** Looks into a database or a copy of it. */
  const look = <T>(from: () => Promise<Connection>, work: (client: pg.Client) => Promise<T>): Promise<T> =>
    eventually(
      'the database answers',
      async () => {
        const client = await connect(await from(), patient)
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
    moment: (): Moment => trails.map(pointOf),
    acknowledged: () => trails.reduce((sum, trail) => sum + acknowledgedIn(trail), 0),
    restoring: (restore: Restore): void => void restores.push(restore),

    /** To be called while the writers pause. @returns what is wrong in the database itself */
    async settle(undone: readonly Restore[]): Promise<string[]> {
      const found = await look(
        () => connection('admin'),
        async client => ({
          rows: await rowsOf(client),
          damage: await damageOf(client),
        }),
      )
      for (const [writer, present] of found.rows) {
        const trail = trails[writer]
        if (trail === undefined) continue
        compare(writer, present)
        for (const { backup, asked } of undone) {
          const [taken, restored] = [backup.to[writer], asked[writer]]
          if (taken === undefined || restored === undefined) continue
          const left = notUndone(trail, present, taken, restored)
          if (left.length > 0) faults.push(`writer ${writer}: a restore left ${left.length} rows of after its backup`)
        }
      }
      restores.length = 0
      return [...faults.splice(0), ...found.damage]
    },

    /** To be called after `settle`. @returns what is wrong in a copy of the database */
    async faultsOf(copy: () => Promise<Connection>, { from, to }: Window): Promise<string[]> {
      const found = await look(copy, async client => ({ rows: await rowsOf(client), damage: await damageOf(client) }))
      const wrong = [...found.rows].flatMap(([writer, present]) => {
        const [trail, first, last] = [trails[writer], from[writer], to[writer]]
        if (trail === undefined || first === undefined || last === undefined) return []
        if (isOfWindow(trail, present, first, last)) return []
        const point = JSON.stringify({ first, last, lives: trail.lives.length, present: present.size })
        return [`writer ${writer}: the copy is of no instant between request and end: ${point}`]
      })
      return [...wrong, ...found.damage]
    },
  }
}
