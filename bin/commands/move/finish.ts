/**
 * `espalier move finish`, which the user runs after the source's writers have stopped. It applies the last changes,
 * compares the rows, and creates what `follow` does not apply: values of sequences, foreign keys, triggers and
 * policies. One transaction creates all of these, so the user can run a killed `finish` again.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from 'pg'
import { countQuery, type TargetFacts, tableName, targetQuery } from '../../../instance/import/catalog.ts'
import { dumpSchema, listSchema, type Mover } from '../../../instance/import/copy.ts'
import { targetError } from '../../../instance/import/fault.ts'
import { start } from '../../../instance/import/programs.ts'
import { MoveError } from './apply.ts'
import { type Move, partsOf, withMover } from './copy.ts'
import { openSession, queryValue, withSession } from './endpoints.ts'
import { follow, stateFor } from './follow.ts'
import { parsePosition } from './pgoutput.ts'
import { dropSlot, tablesOf } from './source.ts'
import { dropState, lockMove, type MoveState, names, readState, recordDone } from './state.ts'

type ForeignKey = { table: string; name: string; definition: string; isPartitioned: boolean }

/** Returns a WAL position after all earlier commits. The commit of a message makes the source flush its WAL first. */
const currentPosition = async (client: Client): Promise<bigint> => {
  await client.query("SELECT pg_logical_emit_message(true, 'espalier', 'finish')")
  return parsePosition(await queryValue<string>(client, 'SELECT pg_current_wal_flush_lsn()::text'))
}

export async function finish(move: Move, deadlineMs: number): Promise<void> {
  const { source, target, report } = move
  let state = await withSession(target, client => stateFor(client, 'finish'))
  if (state.phase !== 'done') {
    await catchUp(move, deadlineMs)
    await withSession(source, there => checkTables(there, state))
    await compareRows(move, state)
    await complete(move)
    report('the database is complete')
    state = { ...state, phase: 'done' }
  }
  await dropSlot(source, state.name)
  report('the slot and the publication are dropped: start the clients on the new database now')
  await withSession(target, here => validate(here, report))
  await withSession(target, here => here.query(dropState))
}

async function catchUp(move: Move, deadlineMs: number): Promise<void> {
  const goal = await withSession(move.source, currentPosition)
  const deadline = AbortSignal.timeout(deadlineMs)
  await follow({ ...move, signal: AbortSignal.any([move.signal, deadline]) }, goal)
  if (deadline.aborted)
    throw new MoveError(
      `the changes were not applied in ${deadlineMs / 1000} s: the move is not finished. Start the source's writers again, and run "espalier move follow" until the lag is smaller`,
    )
  if (move.signal.aborted) throw new MoveError('stopped: the move is not finished')
}

/**
 * Checks that the source has exactly the copied tables, because the publication does not include tables created later.
 * @throws MoveError
 */
async function checkTables(there: Client, { tables }: MoveState): Promise<void> {
  const now = await tablesOf(there)
  const known = new Set(tables.map(tableName))
  const added = now.filter(table => !known.has(tableName(table)))
  if (added.length > 0)
    throw new MoveError(
      `the move is not finished, because tables were created after the copy, and are not followed: ${names(added)}`,
    )
  const present = new Set(now.map(tableName))
  const dropped = tables.filter(table => !present.has(tableName(table)))
  if (dropped.length > 0)
    throw new MoveError(
      `the move is not finished, because tables were dropped or renamed on the source after the copy: ${names(dropped)}`,
    )
}

async function compareRows({ source, target, jobs, signal, report }: Move, { tables }: MoveState): Promise<void> {
  const queue = [...tables]
  const differing: string[] = []
  let rows = 0
  const work = async () => {
    const here = await openSession(target)
    const there = await openSession(source)
    try {
      for (let table = queue.shift(); table !== undefined; table = queue.shift()) {
        if (signal.aborted) throw new MoveError('stopped: the move is not finished')
        const query = countQuery({ ...table, bytes: 0 })
        const [expected, found] = await Promise.all([queryValue<string>(there, query), queryValue<string>(here, query)])
        if (expected !== found) differing.push(`${tableName(table)} has ${found} of ${expected}`)
        rows += Number(found)
      }
    } finally {
      await here.end().catch(() => {})
      await there.end().catch(() => {})
    }
  }
  const workers = Array.from({ length: Math.max(1, Math.min(jobs, tables.length)) }, work)
  const failed = (await Promise.allSettled(workers)).find(end => end.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  if (differing.length > 0)
    throw new MoveError(
      `the move is not finished, because rows differ: ${differing.slice(0, 5).join('; ')}. If a client still writes to the source, stop it and run "espalier move finish" again`,
    )
  report(`${rows} rows of ${tables.length} tables are equal`)
}

const foreignKeysQuery = `SELECT coalesce(jsonb_agg(jsonb_build_object('table', format('%I.%I', n.nspname, c.relname),
  'name', quote_ident(k.conname), 'definition', pg_get_constraintdef(k.oid),
  'isPartitioned', c.relkind = 'p' OR c.relispartition OR f.relkind = 'p') ORDER BY k.oid), '[]')
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_class f ON f.oid = k.confrelid
  WHERE k.contype = 'f' AND k.conparentid = 0 AND n.nspname !~ '^pg_' AND n.nspname <> 'espalier'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')`

const sequencesQuery = `SELECT coalesce(jsonb_agg(format('SELECT setval(%L, %s, true)', format('%I.%I', schemaname, sequencename),
  last_value)), '[]') FROM pg_sequences WHERE last_value IS NOT NULL AND schemaname !~ '^pg_' AND schemaname <> 'espalier'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e'
    AND d.objid = format('%I.%I', schemaname, sequencename)::regclass)`

/**
 * Whether `validate` checks the existing rows later, because that takes long. Older versions of Postgres cannot defer
 * the check for partitioned tables.
 */
const isDeferred = ({ definition, isPartitioned }: ForeignKey): boolean =>
  !isPartitioned && !definition.endsWith(' NOT VALID')
const addForeignKey = (key: ForeignKey): string =>
  `ALTER TABLE ${key.isPartitioned ? '' : 'ONLY '}${key.table} ADD CONSTRAINT ${key.name} ${key.definition}${isDeferred(key) ? ' NOT VALID' : ''}`

async function complete(move: Move): Promise<void> {
  await withMover(move, undefined, async (mover, snapshot) => {
    const here = await openSession(move.target)
    try {
      await lockMove(here)
      const { present } = await queryValue<TargetFacts>(here, targetQuery)
      await dumpSchema(mover, snapshot)
      await listSchema(mover, present)
      const script = await scriptOf(mover)
      const { keys, sequences } = await withSession(move.source, async there => ({
        keys: await queryValue<ForeignKey[]>(there, foreignKeysQuery),
        sequences: await queryValue<string[]>(there, sequencesQuery),
      }))
      const done = recordDone(keys.filter(isDeferred).map(({ table, name }) => ({ table, name })))
      await here.query('BEGIN')
      for (const statement of [...sequences, ...keys.map(addForeignKey), script, done]) await here.query(statement)
      await here.query('COMMIT')
    } finally {
      await here.end().catch(() => {})
    }
  })
}

/** Returns the SQL of the remaining definitions: triggers, rules, policies, and refreshes of materialized views. */
async function scriptOf({ programs, files, signal }: Mover): Promise<string> {
  const [list, script] = [join(files.home, 'schema.list'), join(files.home, 'end.sql')]
  writeFileSync(list, partsOf(readFileSync(list, 'utf8')).atEnd)
  const args = ['--section=post-data', '--no-owner', '--no-privileges', `--use-list=${list}`, `--file=${script}`]
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' }
  await start(join(programs.directory, 'pg_restore'), [...args, join(files.home, 'schema.dump')], {
    ...{ env, signal, failed: targetError },
  }).ended
  // Removes the psql commands around the script, because a server does not know them.
  return readFileSync(script, 'utf8').replace(/^\\(?:un)?restrict .*$/gm, '')
}

/** Validates the foreign keys whose check was deferred. Clients can already write meanwhile. */
async function validate(here: Client, report: (line: string) => void): Promise<void> {
  for (const { table, name } of (await readState(here))?.keys ?? []) {
    report(`checking the foreign key ${name} of ${table}`)
    await here.query(`ALTER TABLE ${table} VALIDATE CONSTRAINT ${name}`)
  }
}

/** `espalier move cancel`: drops the slot and the publication on the source. The target keeps the copied data. */
export async function cancel({ source, target, report }: Move): Promise<void> {
  await withSession(target, async here => {
    await lockMove(here)
    const state = await readState(here)
    if (state === undefined) throw new MoveError('this database has no move')
    await dropSlot(source, state.name)
    await here.query(dropState)
    report(`dropped the slot and the publication ${state.name}; delete the new database`)
  })
}
