/**
 * Copies schema and data: `pg_dump | pg_restore` for each part, all from one snapshot. No data are stored on a disk.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { ownSchema, type Table, tableName } from './catalog.ts'
import type { ImportConfiguration } from './contract.ts'
import { ImportError, sourceError, targetError } from './fault.ts'
import { environmentOf, type Files, type Programs, start } from './programs.ts'
import type { Progress } from './progress.ts'

export type Mover = {
  configuration: ImportConfiguration
  programs: Programs
  files: Files
  signal: AbortSignal
  progress: Progress
}

const dumpOptions = (snapshot: string): string[] => [
  ...['--format=custom', '--no-owner', '--no-privileges', '--no-security-labels', '--no-tablespaces', '--no-password'],
  ...['--no-publications', '--no-subscriptions', '--lock-wait-timeout=60000'],
  ...[`--snapshot=${snapshot}`, `--exclude-schema=${ownSchema}`],
]
const restoreOptions = ['--no-owner', '--no-privileges', '--exit-on-error', '--no-password']

/** Waits for all. Throws the first failure once all have ended: one failure makes the other programs end. */
async function allOf(work: readonly Promise<unknown>[], rank: (error: unknown) => number): Promise<void> {
  const ended = await Promise.allSettled(work)
  const errors = ended.flatMap(end => (end.status === 'rejected' ? [end.reason as unknown] : []))
  if (errors.length > 0) throw errors.toSorted((one, other) => rank(one) - rank(other))[0]
}

/** If a pipe breaks, the program with the error has precedence over the program that only lost its peer. */
const rankOf = (error: unknown): number => {
  if (!(error instanceof ImportError)) return 3
  if (/no message|without a message|end of file|broken pipe|could not write to output file/i.test(error.message))
    return 2
  return 1
}

const schemaFile = ({ files }: Pick<Mover, 'files'>): string => join(files.home, 'schema.dump')

/**
 * Dumps the definitions of all objects, without data. They have a few megabytes and go to a file, since two steps read
 * it.
 */
export async function dumpSchema(mover: Mover, snapshot: string): Promise<void> {
  const { configuration, programs, files, signal } = mover
  const args = [...dumpOptions(snapshot), '--section=pre-data', '--section=post-data', `--file=${schemaFile(mover)}`]
  const env = environmentOf(configuration.source, files)
  await start(join(programs.directory, 'pg_dump'), args, { env, signal, failed: sourceError }).ended
}

/** Whether an entry of `pg_restore --list` is not restored. `present`: extensions that exist already. Pure. */
export function isOmitted(line: string, present: readonly string[]): 'reported' | 'silent' | undefined {
  const entry = /^\d+; \d+ \d+ (.*)$/.exec(line)?.[1]
  if (entry === undefined) return undefined
  if (entry.startsWith('EVENT TRIGGER ') || /^COMMENT - EVENT TRIGGER /.test(entry)) return 'reported'
  if (/^(?:SCHEMA - public|COMMENT - SCHEMA public)(?: |$)/.test(entry)) return 'silent'
  const [, extension] = /^(?:EXTENSION - |COMMENT - EXTENSION )"?(.+?)"?(?: \S*)?$/.exec(entry) ?? []
  return extension !== undefined && present.includes(extension) ? 'silent' : undefined
}

/** Writes the list of entries to restore. @returns the skipped entries, for the result */
export async function listSchema(mover: Mover, present: readonly string[]): Promise<string[]> {
  const { programs, files, signal } = mover
  const list = join(files.home, 'schema.list')
  const args = ['--list', `--file=${list}`, schemaFile(mover)]
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' }
  await start(join(programs.directory, 'pg_restore'), args, { env, signal, failed: targetError }).ended
  const lines = readFileSync(list, 'utf8').split('\n')
  const retained = lines.filter(line => isOmitted(line, present) === undefined)
  writeFileSync(list, retained.join('\n'))
  const reported = lines.filter(line => isOmitted(line, present) === 'reported')
  return reported.map(line =>
    line
      .replace(/^\d+; \d+ \d+ /, '')
      .replace(/ \S*$/, '')
      .replace(' - ', ' ')
      .slice(0, 100),
  )
}

/**
 * `pre-data`: tables and the objects that they need. `post-data`: indexes, constraints, triggers, policies and
 * materialized views.
 */
export async function restoreSchema(mover: Mover, section: 'pre-data' | 'post-data'): Promise<void> {
  const { configuration, programs, files, signal, progress } = mover
  const { target, jobs } = configuration
  const parallel = section === 'post-data' && jobs > 1 ? [`--jobs=${jobs}`] : []
  const args = [
    ...[`--dbname=${target.database}`, ...restoreOptions, `--section=${section}`, ...parallel, '--verbose'],
    ...[`--use-list=${join(files.home, 'schema.list')}`, schemaFile(mover)],
  ]
  const env = environmentOf(target, files)
  const onLine = () => progress.beat()
  await start(join(programs.directory, 'pg_restore'), args, { env, signal, failed: targetError, onLine }).ended
}

/**
 * The minimum size of a table with its own pipeline, and the maximum number of such tables. Smaller tables share one
 * pipeline.
 */
const largeBytes = 32 * 1024 * 1024
const mostLarge = 200

/**
 * The content of each pipeline: one large table, or everything else. The largest tables come first, since they take
 * longest. Pure.
 */
export function pipelines(tables: readonly Table[], jobs: number): { large: Table[] } {
  if (jobs < 2) return { large: [] }
  const large = tables.filter(({ bytes }) => bytes >= largeBytes).toSorted((one, other) => other.bytes - one.bytes)
  return { large: large.slice(0, mostLarge) }
}

export async function copyData(mover: Mover, snapshot: string, tables: readonly Table[]): Promise<void> {
  const { large } = pipelines(tables, mover.configuration.jobs)
  const others = large.map(table => `--exclude-table-data=${tableName(table)}`)
  const queue = [...large.map(table => ['--strict-names', `--table=${tableName(table)}`])]
  // The last pipeline copies large objects, sequences and the tables of extensions. It starts first.
  queue.unshift(others)
  const stopped = new AbortController()
  const signal = AbortSignal.any([mover.signal, stopped.signal])
  const work = async () => {
    for (let args = queue.shift(); args !== undefined; args = queue.shift())
      await movePart({ ...mover, signal }, snapshot, args)
  }
  const workers = Array.from({ length: Math.max(1, mover.configuration.jobs) }, () =>
    work().catch(error => {
      queue.length = 0
      stopped.abort(error)
      throw error
    }),
  )
  await allOf(workers, rankOf)
}

async function movePart(mover: Mover, snapshot: string, selection: readonly string[]): Promise<void> {
  const { configuration, programs, files, signal, progress } = mover
  const { source, target } = configuration
  const dumpArgs = [...dumpOptions(snapshot), '--section=data', '--compress=0', ...selection]
  const restoreArgs = [`--dbname=${target.database}`, ...restoreOptions, '--section=data', '--verbose']
  const onLine = (line: string) => {
    if (line.includes('processing data for table')) progress.addTables(1)
  }
  const dump = start(join(programs.directory, 'pg_dump'), dumpArgs, {
    ...{ env: environmentOf(source, files), signal, failed: sourceError, stdio: ['ignore', 'pipe'] },
  })
  const restore = start(join(programs.directory, 'pg_restore'), restoreArgs, {
    ...{ env: environmentOf(target, files), signal, failed: targetError, stdio: ['pipe', 'ignore'], onLine },
  })
  const { stdout } = dump.child
  const { stdin } = restore.child
  if (stdout === null || stdin === null) throw new Error('a program has no pipe')
  const counter = new Transform({
    transform: (chunk: Buffer, _, done) => {
      progress.addBytes(chunk.length)
      done(null, chunk)
    },
  })
  const piped = pipeline(stdout, counter, stdin).catch(error => {
    // One of both programs failed and reported a reason. The other program fails because its peer has ended.
    dump.child.kill('SIGTERM')
    stdin.end()
    throw error
  })
  piped.catch(() => {})
  // pg_restore must not treat a failed dump as complete: its input ends early, so pg_restore fails too.
  await allOf([dump.ended, restore.ended, piped], rankOf)
}
