/**
 * Copies under load and kills. Concurrent backups and branches of a database under writes are taken while operator and
 * CSI driver are killed at random moments. Every copy that is reported as ready is inspected, and at the end no copy
 * may leave objects. ESPALIER_SOAK_COPIES sets their number; ESPALIER_SOAK_SEED repeats the random choices.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Connection, eventually, openTo } from '../client.ts'
import { createChance, seed } from './chance.ts'
import { startKills } from './kills.ts'
import { faultsOf, type Ledger, type Position, startLedger } from './ledger.ts'
import { connectionOf, createBackup, createBranch, ended, readBackup, readBranch } from './requests.ts'
import { minutes, type Serving, startServing } from './serving.ts'
import { soakCount } from './soak-count.ts'
import { everyImage } from './storage.ts'
import { asSuperuser } from './superuser.ts'

const wanted = soakCount('ESPALIER_SOAK_COPIES', 200)
const atOnce = 5
/** The time between two kills, in ms. A killed operator is restarted and leads again after about 20 s. */
const killsEveryMs: [number, number] = [10_000, 40_000]
/**
 * The allowed part of the requested copies. If the storage is unavailable for too long, some copies fail with this
 * reason.
 */
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
  await ledger?.stop().catch(() => {}) // the test has reported the error
  await it?.api.remove(it.database.id, '?force=true')
  await it?.provider.stop()
}, minutes(3))

type Kind = 'branch' | 'kept' | 'restored' | 'verified'
type Outcome = { what: string; faults?: string[]; failed?: string }
const pathOf = (branchId: string) => `/databases/${it.database.id}/branches/${branchId}`
const rules = () => openTo(it.provider.clientAddress)

/** The problems of a serving copy. */
const checkRows = (connection: Connection, between: { from: Position; to: Position }): Promise<string[]> =>
  asSuperuser(it.provider, connection, async client => {
    const { rows } = await client.query('SELECT slot_name FROM pg_replication_slots')
    const slots = rows.map(row => `it has its source's slot ${row.slot_name}`)
    return [...slots, ...(await faultsOf(client, between))]
  })

async function branch(): Promise<Outcome> {
  const from = ledger.position()
  const requested = await createBranch(it.api, it.database.id)
  expect(requested.status, JSON.stringify(requested.body)).toBe(201)
  const task = await ended(it.api, requested)
  const { id } = requested.body
  const to = ledger.position()
  const { status } = await readBranch(it.api, it.database.id, id)
  const made = status === 'available' && {
    faults: await checkRows(await connectionOf(it.api, it.database.id, id), { from, to }),
  }
  const deleted = await it.api.call('DELETE', pathOf(id))
  if (deleted.status !== 204) throw new Error(`the branch ${id} is not deleted: ${JSON.stringify(deleted.body)}`)
  return made ? { what: 'branch', ...made } : { what: 'branch', failed: task.error ?? status }
}

/** Takes a backup. Some backups are inspected: with a database created from it, or with the product's own check. */
async function backup(kind: Exclude<Kind, 'branch'>, name: string): Promise<Outcome> {
  const what = `backup, ${kind}`
  const from = ledger.position()
  const requested = await createBackup(it.api, it.database.id)
  expect(requested.status, JSON.stringify(requested.body)).toBe(202)
  const task = await ended(it.api, requested)
  const to = ledger.position()
  const { id, status } = await readBackup(it.api, requested.body.id)
  let outcome: Outcome = { what }
  if (status !== 'completed') outcome = { what, failed: task.error ?? status }
  else if (kind === 'restored') outcome = { what, faults: await faultsByDatabase(id, name, { from, to }) }
  else if (kind === 'verified') outcome = { what, ...(await verificationOf(id)) }
  await it.api.call('DELETE', `/backups/${id}`)
  return outcome
}

async function faultsByDatabase(
  backupId: string,
  name: string,
  between: { from: Position; to: Position },
): Promise<string[]> {
  const requested = await it.api.create(
    { name, pg_version: '17', source_backup_id: backupId, ip_allowlist: rules() },
    {},
  )
  expect(requested.status, JSON.stringify(requested.body)).toBe(200)
  const task = await ended(it.api, requested)
  const { id } = requested.body
  const faults =
    task.status === 'succeeded' ? await checkRows(await it.api.connection(id), between) : [`no database: ${task.error}`]
  await ended(it.api, await it.api.call('DELETE', `/databases/${id}`))
  return faults
}

async function verificationOf(id: string): Promise<Pick<Outcome, 'faults' | 'failed'>> {
  expect((await it.api.call('POST', `/backups/${id}/verify`)).status).toBe(202)
  // The other API server may not know of the request yet, so a missing pending deletion proves nothing.
  const finished = async () => {
    const { metadata } = await readBackup(it.api, id)
    return ['verified', 'failed'].includes(metadata.verification ?? '') && metadata
  }
  const { verification, ...more } = await eventually('the verification has ended', finished, minutes(10))
  return { faults: verification === 'verified' ? [] : [`${verification}: ${JSON.stringify(more)}`] }
}

test(
  `${wanted} copies of a database under load, with operator and driver killed meanwhile: none is inconsistent, and nothing remains`,
  async () => {
    console.log(`ESPALIER_SOAK_SEED=${seed}`)
    const source = await it.api.connection(it.database.id)
    const inSource = (text: string) => asSuperuser(it.provider, source, async client => (await client.query(text)).rows)
    await inSource("SELECT pg_create_physical_replication_slot('kept')")
    const stopKills = startKills(it.provider, createChance('kills'), killsEveryMs)
    const outcomes: Outcome[] = []
    let next = 0
    const copy = async (slot: number) => {
      const chance = createChance(`lane ${slot}`)
      while (next < wanted) {
        const number = ++next
        const kind = chance.of<Kind>(['branch', 'branch', 'branch', 'branch', 'kept', 'restored', 'verified', 'kept'])
        const outcome = kind === 'branch' ? await branch() : await backup(kind, `from${number}`)
        outcomes.push(outcome)
        if (outcome.faults?.length || outcome.failed) console.log(`${number}: ${JSON.stringify(outcome)}`)
      }
    }
    const began = performance.now()
    const slots = await Promise.allSettled(Array.from({ length: atOnce }, (_, slot) => copy(slot)))
    const kills = await stopKills()
    for (const slot of slots) if (slot.status === 'rejected') throw slot.reason

    // No writer had an error, so the source served all the time.
    await ledger.stop()
    const to = ledger.position()
    const checked = outcomes.filter(({ faults }) => faults !== undefined)
    const failed = outcomes.filter(outcome => outcome.failed !== undefined)
    const byKind = Map.groupBy(outcomes, ({ what }) => what)
    console.log(
      `${outcomes.length} copies in ${Math.round((performance.now() - began) / 1000)} s:`,
      [...byKind].map(([what, { length }]) => `${length} ${what}`).join('; '),
      `${checked.length} looked into, ${failed.length} failed with a reason; killed: ${JSON.stringify(kills)};`,
      `${to.reduce((sum, n) => sum + n, 0)} transactions, the longest gap between two ${Math.round(ledger.longestGapMs())} ms`,
    )
    expect(checked.filter(({ faults }) => faults?.length)).toEqual([])
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
    // Everything that existed before the test, except the images of the database itself.
    const isDeleted = async () => {
      const remaining = (await everyImage(it.provider)).filter(line => !before.includes(line))
      if (remaining.length > 0) throw new Error(remaining.join('\n'))
      return true
    }
    await eventually('every new object, image and mount is deleted', isDeleted, minutes(3))
    const rest = (await everyImage(it.provider)).filter(line => before.includes(line))
    expect(rest.length).toBeLessThan(before.length)
  },
  minutes(240),
)
