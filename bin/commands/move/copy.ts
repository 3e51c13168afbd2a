/** `espalier move copy`: copies a snapshot of definitions, data and indexes. A slot retains every later change. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, escapeLiteral } from 'pg'
import {
  refuse,
  type SourceFacts,
  sourceQuery,
  type TargetFacts,
  targetQuery,
} from '../../../instance/import/catalog.ts'
import type { Endpoint } from '../../../instance/import/contract.ts'
import { copyData, dumpSchema, listSchema, type Mover, restoreSchema } from '../../../instance/import/copy.ts'
import { findPrograms } from '../../../instance/import/programs.ts'
import { filesIn } from '../../../instance/import/run.ts'
import { openSession, queryValue, withSession } from './endpoints.ts'
import { parsePosition } from './pgoutput.ts'
import { checkSource, createPublication, createSlot, dropSlot, tablesOf } from './source.ts'
import { createState, dropState, lockMove, newName, readState, recordPosition } from './state.ts'

export type Move = {
  source: Endpoint
  target: Endpoint
  jobs: number
  signal: AbortSignal
  report: (line: string) => void
  environment: NodeJS.ProcessEnv
}

/**
 * Matches the dump entries that make `follow` fast: keys, indexes and statistics. None of these entries changes rows.
 */
const neededByFollow = /^\d+; \d+ \d+ (?:CONSTRAINT|INDEX|INDEX ATTACH|STATISTICS(?! DATA)) /

/**
 * Splits a list of entries into those that `copy` restores before `follow`, and those that `finish` restores. Omits
 * foreign keys, which `finish` adds itself. Pure.
 */
export function partsOf(list: string): { before: string; atEnd: string } {
  const lines = list.split('\n').filter(line => !/^\d+; \d+ \d+ FK CONSTRAINT /.test(line))
  return {
    before: lines.filter(line => neededByFollow.test(line)).join('\n'),
    atEnd: lines.filter(line => !neededByFollow.test(line)).join('\n'),
  }
}

const keepAliveMs = 30_000

/** Runs `work` with the programs of Postgres and a snapshot of the source. An open session keeps the snapshot valid. */
export async function withMover<T>(
  move: Move,
  existingSnapshot: string | undefined,
  work: (mover: Mover, snapshot: string) => Promise<T>,
): Promise<T> {
  const { source, target, jobs, signal, report, environment } = move
  const home = mkdtempSync(join(tmpdir(), 'espalier-move-'))
  const holder = await openSession(source)
  const keepAlive = setInterval(() => void holder.query('SELECT 1').catch(() => {}), keepAliveMs)
  try {
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    if (existingSnapshot !== undefined)
      await holder.query(`SET TRANSACTION SNAPSHOT ${escapeLiteral(existingSnapshot)}`)
    const snapshot = await queryValue<string>(holder, 'SELECT pg_export_snapshot()')
    const major = await withSession(target, serverMajor)
    const programs = await findPrograms(major, environment)
    const progress = progressOf(report)
    const configuration = { source, target, jobs, major, capacityBytes: Number.MAX_SAFE_INTEGER, stallMs: 0 }
    return await work({ configuration, programs, files: filesIn(home), signal, progress }, snapshot)
  } finally {
    clearInterval(keepAlive)
    await holder.end().catch(() => {})
    rmSync(home, { recursive: true, force: true })
  }
}

const serverMajor = async (client: Client): Promise<number> =>
  Number(await queryValue(client, "SELECT current_setting('server_version_num')::int / 10000"))

const reportEveryMs = 10_000

function progressOf(report: (line: string) => void): Mover['progress'] {
  const done = { tables: 0, bytes: 0 }
  let at = Date.now()
  const show = () => {
    if (Date.now() < at + reportEveryMs) return
    at = Date.now()
    report(`copied ${Math.ceil(done.bytes / 2 ** 20)} MiB, ${done.tables} tables`)
  }
  return {
    step: report,
    expect: () => {},
    addBytes: count => {
      done.bytes += count
      show()
    },
    addTables: count => {
      done.tables += count
      show()
    },
    beat: show,
    stop: () => {},
  }
}

/**
 * Counts the target's tables. The target must have none, because the user deletes the whole database after a failed
 * copy.
 */
const tablesHere = `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')
  AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'espalier')`

export async function copy(move: Move): Promise<void> {
  const { source, target, report } = move
  const here = await openSession(target)
  const there = await openSession(source)
  try {
    await lockMove(here)
    const state = await readState(here)
    if (state !== undefined)
      throw new Error(
        state.phase === 'copying'
          ? `a copy was interrupted, and its slot ${state.name} may exist on the source: run "espalier move cancel", delete this database, and start again with a new one`
          : 'the copy is complete: run "espalier move follow"',
      )
    if (await queryValue<string>(here, tablesHere).then(count => count !== '0'))
      throw new Error('the database has tables: a move needs a new, empty database')
    await checkSource(there)
    const tables = await tablesOf(there)
    const name = newName()
    await createState(here, { name, tables })
    report(`the slot and the publication on the source are named ${name}`)
    try {
      await createPublication(there, name, tables)
      await copyFromSlot(move, name, here)
    } catch (error) {
      // A slot without a reader fills the source's disk. If it cannot be dropped, the record on the target remains.
      await dropSlot(source, name).catch((more: Error) => {
        throw new Error(`${error instanceof Error ? error.message : String(error)}. ${more.message}`)
      })
      await here.query(dropState)
      throw error
    }
    report('the copy is complete: run "espalier move follow"')
  } finally {
    await here.end().catch(() => {})
    await there.end().catch(() => {})
  }
}

async function copyFromSlot(move: Move, name: string, here: Client): Promise<void> {
  const { source, report } = move
  report('waiting until the transactions that run on the source have ended')
  const slot = await createSlot(source, name, move.signal)
  try {
    await withMover(move, slot.snapshot, async (mover, snapshot) => {
      const facts = await withSession(source, client => queryValue<SourceFacts>(client, sourceQuery))
      const found = await queryValue<TargetFacts>(here, targetQuery)
      refuse(facts, found, mover.configuration, mover.programs)
      report('copying definitions')
      await dumpSchema(mover, snapshot)
      await listSchema(mover, found.present)
      const list = join(mover.files.home, 'schema.list')
      await restoreSchema(mover, 'pre-data')
      report(`copying the data of ${facts.tables.length} tables`)
      await copyData(mover, snapshot, facts.tables)
      report('building indexes')
      writeFileSync(list, partsOf(readFileSync(list, 'utf8')).before)
      await restoreSchema(mover, 'post-data')
      await here.query('ANALYZE')
    })
    await here.query(recordPosition(parsePosition(slot.position)))
  } finally {
    await slot.connection.end().catch(() => {})
  }
}
