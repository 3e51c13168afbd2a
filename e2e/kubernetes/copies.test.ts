/**
 * Copies under load and kills: backups and branches of a database that is written to, several at once, while operator and CSI driver
 * are killed at any moment. Every copy that is said to be there is looked into, and in the end nothing is left of any. How many:
 * ESPALIER_SOAK_COPIES. What chance decided is had again by ESPALIER_SOAK_SEED.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type Connection, eventually, openTo } from '../client.ts'
import { askBackup, askBranch, connectionOf, ended, readBackup, readBranch } from './asking.ts'
import { createChance, seed } from './chance.ts'
import { startKills } from './kills.ts'
import { faultsOf, type Ledger, type Position, startLedger } from './ledger.ts'
import { minutes, type Serving, startServing } from './serving.ts'
import { everyImage } from './storage.ts'
import { asSuperuser } from './superuser.ts'

const wanted = z.coerce
  .number('ESPALIER_SOAK_COPIES must be a number')
  .int()
  .min(1)
  .default(200)
  .parse(process.env.ESPALIER_SOAK_COPIES || undefined)
const atOnce = 5
/** Between two kills, in ms. An operator that is killed is back, and leads, after about 20 s. */
const killsEveryMs: [number, number] = [10_000, 40_000]
/** Of the copies that were asked for: a storage that is away for too long fails some, with the reason. */
const mostFailed = 0.2

let it: Serving
let before: string[]
let ledger: Ledger

beforeAll(async () => {
  it = await startServing('copies', 'ledger')
  before = await everyImage(it.provider)
  ledger = await startLedger(await it.api.connection(it.database.id))
}, minutes(4))
afterAll(async () => {
  await ledger?.stop().catch(() => {}) // the test has told
  await it?.api.remove(it.database.id, '?force=true')
  await it?.provider.stop()
}, minutes(3))

type Kind = 'branch' | 'kept' | 'restored' | 'verified'
type Outcome = { what: string; faults?: string[]; failed?: string }
const pathOf = (branchId: string) => `/databases/${it.database.id}/branches/${branchId}`
const rules = () => openTo(it.provider.clientAddress)

/** What is wrong in a copy that serves. */
const look = (connection: Connection, between: { from: Position; to: Position }): Promise<string[]> =>
  asSuperuser(it.provider, connection, async client => {
    const { rows } = await client.query('SELECT slot_name FROM pg_replication_slots')
    const slots = rows.map(row => `it has its source's slot ${row.slot_name}`)
    return [...slots, ...(await faultsOf(client, between))]
  })

async function branch(): Promise<Outcome> {
  const from = ledger.position()
  const asked = await askBranch(it.api, it.database.id)
  expect(asked.status, JSON.stringify(asked.body)).toBe(201)
  const task = await ended(it.api, asked)
  const { id } = asked.body
  const to = ledger.position()
  const { status } = await readBranch(it.api, it.database.id, id)
  const made = status === 'available' && {
    faults: await look(await connectionOf(it.api, it.database.id, id), { from, to }),
  }
  const gone = await it.api.call('DELETE', pathOf(id))
  if (gone.status !== 204) throw new Error(`the branch ${id} is not deleted: ${JSON.stringify(gone.body)}`)
  return made ? { what: 'branch', ...made } : { what: 'branch', failed: task.error ?? status }
}

/** A part of them is looked into: by a database that is made of it, or by the check that the product itself makes. */
async function backup(kind: Exclude<Kind, 'branch'>, name: string): Promise<Outcome> {
  const what = `backup, ${kind}`
  const from = ledger.position()
  const asked = await askBackup(it.api, it.database.id)
  expect(asked.status, JSON.stringify(asked.body)).toBe(202)
  const task = await ended(it.api, asked)
  const to = ledger.position()
  const { id, status } = await readBackup(it.api, asked.body.id)
  let outcome: Outcome = { what }
  if (status !== 'completed') outcome = { what, failed: task.error ?? status }
  else if (kind === 'restored') outcome = { what, faults: await lookByDatabase(id, name, { from, to }) }
  else if (kind === 'verified') outcome = { what, ...(await verdictOf(id)) }
  await it.api.call('DELETE', `/backups/${id}`)
  return outcome
}

async function lookByDatabase(
  backupId: string,
  name: string,
  between: { from: Position; to: Position },
): Promise<string[]> {
  const asked = await it.api.create({ name, pg_version: '17', source_backup_id: backupId, ip_allowlist: rules() }, {})
  expect(asked.status, JSON.stringify(asked.body)).toBe(200)
  const task = await ended(it.api, asked)
  const { id } = asked.body
  const faults =
    task.status === 'succeeded' ? await look(await it.api.connection(id), between) : [`no database: ${task.error}`]
  await ended(it.api, await it.api.call('DELETE', `/databases/${id}`))
  return faults
}

async function verdictOf(id: string): Promise<Pick<Outcome, 'faults' | 'failed'>> {
  expect((await it.api.call('POST', `/backups/${id}/verify`)).status).toBe(202)
  // The other API server may not have heard yet that it was asked for, so that none is pending is no verdict.
  const verdict = async () => {
    const { metadata } = await readBackup(it.api, id)
    return ['verified', 'failed'].includes(metadata.verification ?? '') && metadata
  }
  const { verification, ...more } = await eventually('a verdict', verdict, minutes(10))
  return { faults: verification === 'verified' ? [] : [`${verification}: ${JSON.stringify(more)}`] }
}

test(
  `${wanted} copies of a database under load, with operator and driver killed all the while: none is inconsistent, and nothing is left`,
  async () => {
    console.log(`ESPALIER_SOAK_SEED=${seed}`)
    const source = await it.api.connection(it.database.id)
    const inSource = (text: string) => asSuperuser(it.provider, source, async client => (await client.query(text)).rows)
    await inSource("SELECT pg_create_physical_replication_slot('kept')")
    const stopKills = startKills(it.provider, createChance('kills'), killsEveryMs)
    const outcomes: Outcome[] = []
    let next = 0
    const copy = async (lane: number) => {
      const chance = createChance(`lane ${lane}`)
      while (next < wanted) {
        const number = ++next
        const kind = chance.of<Kind>(['branch', 'branch', 'branch', 'branch', 'kept', 'restored', 'verified', 'kept'])
        const outcome = kind === 'branch' ? await branch() : await backup(kind, `from${number}`)
        outcomes.push(outcome)
        if (outcome.faults?.length || outcome.failed) console.log(`${number}: ${JSON.stringify(outcome)}`)
      }
    }
    const began = performance.now()
    const lanes = await Promise.allSettled(Array.from({ length: atOnce }, (_, lane) => copy(lane)))
    const kills = await stopKills()
    for (const lane of lanes) if (lane.status === 'rejected') throw lane.reason

    // No writer ever met an error: the source served all the while.
    await ledger.stop()
    const to = ledger.position()
    const looked = outcomes.filter(({ faults }) => faults !== undefined)
    const failed = outcomes.filter(outcome => outcome.failed !== undefined)
    const told = Map.groupBy(outcomes, ({ what }) => what)
    console.log(
      `${outcomes.length} copies in ${Math.round((performance.now() - began) / 1000)} s:`,
      [...told].map(([what, { length }]) => `${length} ${what}`).join('; '),
      `${looked.length} looked into, ${failed.length} failed with a reason; killed: ${JSON.stringify(kills)};`,
      `${to.reduce((sum, n) => sum + n, 0)} transactions, the longest gap between two ${Math.round(ledger.longestGapMs())} ms`,
    )
    expect(looked.filter(({ faults }) => faults?.length)).toEqual([])
    expect(failed.length).toBeLessThanOrEqual(wanted * mostFailed)
    expect(Object.keys(kills).length).toBeGreaterThan(0)

    expect(await inSource('SELECT slot_name FROM pg_replication_slots')).toEqual([{ slot_name: 'kept' }])
    expect(await asSuperuser(it.provider, source, client => faultsOf(client, { from: to, to }))).toEqual([])
    await eventually('no session left', async () => {
      const sessions = await inSource(`
        SELECT usename, application_name, state FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
      if (sessions.length > 0) throw new Error(JSON.stringify(sessions))
      return true
    })
    await ended(it.api, await it.api.call('DELETE', `/databases/${it.database.id}?force=true`))
    // All that was there before but for the images of the database itself.
    const isGone = async () => {
      const left = (await everyImage(it.provider)).filter(line => !before.includes(line))
      if (left.length > 0) throw new Error(left.join('\n'))
      return true
    }
    await eventually('everything gone', isGone, minutes(3))
    const rest = (await everyImage(it.provider)).filter(line => before.includes(line))
    expect(rest.length).toBeLessThan(before.length)
  },
  minutes(240),
)
