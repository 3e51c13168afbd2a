/**
 * Imports a database once: everything from one snapshot of the source, with its rows counted on both sides. First it
 * removes leftovers of an earlier attempt. It reports its progress in the target, and ends with one outcome.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import {
  activityQuery,
  countQuery,
  refuse,
  resetStatement,
  type SourceFacts,
  sourceQuery,
  type Table,
  type TargetFacts,
  tableName,
  targetQuery,
} from './catalog.ts'
import type { Endpoint, ImportConfiguration, ImportOutcome, ImportResult } from './contract.ts'
import { copyData, dumpSchema, listSchema, type Mover, restoreSchema } from './copy.ts'
import { ImportError, sourceError, targetError } from './fault.ts'
import { type Files, findPrograms, type Programs } from './programs.ts'
import { followProgress } from './progress.ts'
import { openSession, type Session } from './session.ts'

const mostOmitted = 20
/** A network may drop an idle connection. */
const keepAliveMs = 30_000
const longestMessage = 1_000

/** `directory`: for the import's files, at most a few megabytes. It is emptied before and after the import. */
export async function runImport(
  configuration: ImportConfiguration,
  options: { directory: string; signal: AbortSignal; environment?: NodeJS.ProcessEnv },
): Promise<ImportOutcome> {
  const { directory, signal, environment } = options
  const stopped = new AbortController()
  try {
    if (signal.aborted) throw signal.reason
    rmSync(directory, { recursive: true, force: true })
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const programs = await findPrograms(configuration.major, environment)
    const run = { configuration, programs, files: filesIn(directory), stopped }
    return { result: await attempt(run, AbortSignal.any([signal, stopped.signal])) }
  } catch (error) {
    return outcomeOf(error, configuration, signal)
  } finally {
    stopped.abort(new ImportError('Interrupted', 'the import has ended'))
    rmSync(directory, { recursive: true, force: true })
  }
}

function outcomeOf(error: unknown, { source, target }: ImportConfiguration, signal: AbortSignal): ImportOutcome {
  if (signal.aborted) return { fault: 'Interrupted', message: 'the import was stopped' }
  const known = error instanceof ImportError ? error : new ImportError('Interrupted', String(error))
  const secrets = [source.password, target.password].filter(secret => secret !== '')
  const message = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), known.message)
  return { fault: known.fault, message: message.slice(0, longestMessage) }
}

export function filesIn(home: string): Files {
  let count = 0
  const known = new Map<string, string>()
  return {
    home,
    ca: (pem = rootCertificates.join('\n')) => {
      const path = known.get(pem) ?? join(home, `ca-${count++}.crt`)
      if (!known.has(pem)) writeFileSync(path, `${pem}\n`, { mode: 0o600 })
      known.set(pem, path)
      return path
    },
  }
}

type Run = { configuration: ImportConfiguration; programs: Programs; files: Files; stopped: AbortController }

async function attempt(run: Run, signal: AbortSignal): Promise<ImportResult> {
  const { configuration, programs, files, stopped } = run
  const open = (endpoint: Endpoint) =>
    openSession(programs, endpoint, {
      ...{ files, signal, failed: endpoint === configuration.source ? sourceError : targetError },
    })
  const { source, target } = configuration
  const watcher = open(target)
  const reporter = open(target)
  const sourceWatcher = open(source)
  const progress = followProgress(reporter, {
    stallMs: configuration.stallMs,
    isActive: async () =>
      Number(await watcher.value(activityQuery)) + Number(await sourceWatcher.value(activityQuery)) > 0,
    stalled: error => stopped.abort(error),
  })
  const holder = open(source)
  const keepAlive = setInterval(() => void holder.value('SELECT 1').catch(() => {}), keepAliveMs)
  try {
    await reporter.value(resetStatement)
    const [facts, here] = [await sourceFacts(holder), await reporter.json<TargetFacts>(targetQuery)]
    refuse(facts.source, here, configuration, programs)
    const { tables } = facts.source
    progress.expect({ tables: tables.length, bytes: tables.reduce((sum, { bytes }) => sum + bytes, 0) })
    progress.step('schema')
    const mover: Mover = { configuration, programs, files, signal, progress }
    await dumpSchema(mover, facts.snapshot)
    const leftOut = await listSchema(mover, here.present)
    await restoreSchema(mover, 'pre-data')
    progress.step('data')
    await copyData(mover, facts.snapshot, tables)
    progress.step('counting')
    const rows = await countRows(tables, facts.snapshot, {
      configuration,
      open,
      onCounted: () => progress.addTables(1),
    })
    progress.step('indexes')
    await restoreSchema(mover, 'post-data')
    await reporter.value('ANALYZE')
    const bytes = Number(await reporter.value('SELECT pg_database_size(current_database())'))
    return {
      ...{ sourceVersion: facts.source.versionName, tables: tables.length, rows, bytes },
      leftOut: leftOut.slice(0, mostOmitted),
    }
  } finally {
    clearInterval(keepAlive)
    progress.stop()
    for (const session of [holder, sourceWatcher, watcher, reporter]) session.close()
  }
}

/** The transaction of this session keeps the snapshot until the session is closed. */
async function sourceFacts(holder: Session): Promise<{ source: SourceFacts; snapshot: string }> {
  await holder.value('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  const source = await holder.json<SourceFacts>(sourceQuery)
  return { source, snapshot: await holder.value('SELECT pg_export_snapshot()') }
}

const mostNamed = 5

/**
 * Counts the rows of every table, in the snapshot and in the target. This happens before policies and triggers exist,
 * because these would hide rows.
 * @returns the sum. @throws ImportError `RowCountsDiffer`
 */
async function countRows(
  tables: readonly Table[],
  snapshot: string,
  options: { configuration: ImportConfiguration; open: (endpoint: Endpoint) => Session; onCounted: () => void },
): Promise<number> {
  const { configuration, open, onCounted } = options
  const { source, target, jobs } = configuration
  const queue = [...tables]
  const differing: string[] = []
  let rows = 0
  const work = async () => {
    const [there, here] = [open(source), open(target)]
    try {
      await there.value(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '${snapshot}'`)
      for (let table = queue.shift(); table !== undefined; table = queue.shift()) {
        const [expected, found] = await Promise.all([there.value(countQuery(table)), here.value(countQuery(table))])
        if (expected !== found) differing.push(`${tableName(table)} has ${found} of ${expected}`)
        rows += Number(found)
        onCounted()
      }
    } finally {
      there.close()
      here.close()
    }
  }
  await Promise.all(Array.from({ length: Math.max(1, Math.min(jobs, tables.length)) }, work))
  if (differing.length === 0) return rows
  const more = differing.length > mostNamed ? ` and ${differing.length - mostNamed} more` : ''
  throw new ImportError('RowCountsDiffer', `rows differ: ${differing.slice(0, mostNamed).join('; ')}${more}`)
}
