/**
 * Replays WAL with a Postgres that accepts no connections. This Postgres recovers up to the target, is promoted, and is
 * shut down. After a kill at any moment, the same directory can be replayed again: Postgres continues.
 */
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readIfPresent, writeDurably } from '../files.ts'
import { Refusal } from '../refusal.ts'
import { bytesOfLsn, type RecoverySource, type RecoveryTarget } from './source.ts'
import type { WalSupply } from './wal.ts'

const signalFile = 'recovery.signal'
const pollMs = 20
const retainedLog = 64 * 1024

/**
 * Replaces `Z` by an offset. `Z` is an abbreviation of a time zone, and Postgres reads its configuration before it
 * knows these.
 */
const withOffset = (time: string): string => time.replace(/Z$/, '+00')

/** The range of WAL to replay. Without a target: all WAL. */
function targetSettings(target: RecoveryTarget): Record<string, string> {
  const upTo = { recovery_target_timeline: 'latest', recovery_target_action: 'promote' }
  switch (target.kind) {
    case 'backup':
      return { ...upTo, recovery_target_timeline: 'current', recovery_target: 'immediate' }
    case 'time':
      return { ...upTo, recovery_target_time: withOffset(target.time) }
    case 'lsn':
      // A position that is read after a commit is the start of the next record. This record is not replayed.
      return { ...upTo, recovery_target_lsn: target.lsn, recovery_target_inclusive: 'off' }
    case 'name':
      return { ...upTo, recovery_target_name: target.name }
  }
}

/** Settings for recovery only: no connections, no archiving under any name, no workers. */
const fixed: Record<string, string> = {
  listen_addresses: '',
  // Postgres does not start without a socket. No line of pg_hba.conf admits a local connection.
  unix_socket_directories: '.',
  unix_socket_permissions: '0700',
  hot_standby: 'off',
  archive_mode: 'off',
  // Small, because Postgres shares its memory with the process that fetches WAL. A page that leaves this cache stays in
  // the kernel's cache.
  shared_buffers: '32MB',
  autovacuum: 'off',
  max_logical_replication_workers: '0',
  logging_collector: 'off',
  log_destination: 'stderr',
  log_min_messages: 'warning',
  // Makes Postgres read ahead in WAL and prefetch the pages that will be changed.
  recovery_prefetch: 'try',
}

/** Whether this is Postgres's message for WAL that ended before the target. */
const isShort = (message: string): boolean =>
  /recovery ended before configured recovery target was reached/.test(message)

/**
 * @param directory a data directory from a base backup, with its configuration
 * @throws Refusal `target-not-reached`, `recovery-failed`, and errors of the WAL supply
 */
export async function replay(
  directory: string,
  source: RecoverySource,
  wal: WalSupply,
  signal?: AbortSignal,
): Promise<void> {
  if (existsSync(join(directory, 'backup_label'))) writeDurably(join(directory, signalFile), '')
  const { target } = source
  const command = target.kind === 'backup' ? 'false' : wal.command
  const ended = await run(directory, { restore_command: command, ...targetSettings(target) }, signal)
  if (ended === undefined) return
  if (wal.fault !== undefined) throw wal.fault
  if (!isShort(ended)) throw new Refusal('recovery-failed', `Postgres could not replay the archive: ${ended}`)
  refuseGap(source, wal)
  // Nothing was committed between the end of WAL and the target, so the replayed data are the database at the target.
  // WAL that is archived from now on is later, so only existing WAL is replayed.
  const rest = await run(directory, { restore_command: 'false', recovery_target_timeline: 'latest' }, signal)
  if (rest !== undefined) throw new Refusal('recovery-failed', `Postgres could not replay the archive: ${rest}`)
}

/** WAL may end before the target only if the archive is known to contain all WAL up to the target. */
function refuseGap({ target, through, id, incarnation }: RecoverySource, { end, missing, foreign }: WalSupply): void {
  const needed = target.kind === 'lsn' ? target.lsn : target.kind === 'time' ? through : undefined
  if (needed !== undefined && end >= bytesOfLsn(needed)) return
  const what =
    target.kind === 'name'
      ? `there is no point named ${JSON.stringify(target.name)}`
      : `WAL ends before the target${needed === undefined ? '' : `, and should reach ${needed}`}`
  throw new Refusal(
    'target-not-reached',
    `${what}: the archive has no ${id}/${incarnation}/wal/${missing ?? ''} or not all of it${
      foreign === undefined ? '' : `; its ${foreign} was archived by another server, and is not replayed`
    }`,
  )
}

/** @returns undefined once recovery has ended and Postgres has shut down; otherwise its last message */
async function run(
  directory: string,
  settings: Record<string, string>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  // A lock file of a server that was killed with the previous process: its process id is meaningless here.
  clear(directory, 'postmaster.pid')
  const flags = Object.entries({ ...fixed, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn('postgres', ['-D', directory, ...flags], { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-retainedLog)
  })
  let exit: { code: number | null } | undefined
  const exited = new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.once('close', code => {
      exit = { code }
      resolve()
    })
  })
  exited.catch(() => {})
  const abort = () => server.kill('SIGQUIT')
  signal?.addEventListener('abort', abort, { once: true })
  process.once('exit', abort)
  try {
    while (exit === undefined && !isReady(directory)) await Promise.race([delay(pollMs), exited])
    if (exit === undefined) server.kill('SIGINT')
    const wasReady = exit === undefined
    await exited
    signal?.throwIfAborted()
    return wasReady && exit?.code === 0 ? undefined : lastLines(log)
  } finally {
    signal?.removeEventListener('abort', abort)
    process.off('exit', abort)
    clear(directory)
  }
}

/** Removes sockets, which a killed server may have left, and other files. */
function clear(directory: string, ...others: string[]): void {
  const sockets = readdirSync(directory).filter(name => name.startsWith('.s.PGSQL.'))
  for (const name of [...sockets, ...others]) rmSync(join(directory, name), { force: true })
}

/**
 * Postgres writes its state into the eighth line of its lock file. Without hot standby, the state is "ready" only when
 * recovery has ended.
 */
const isReady = (directory: string): boolean =>
  readIfPresent(join(directory, 'postmaster.pid'))?.split('\n')[7]?.trim() === 'ready'

function lastLines(log: string): string {
  const lines = log.trim().split('\n')
  const fatal = lines.filter(line => /(FATAL|PANIC): {2}/.test(line))
  const line = fatal.find(text => isShort(text)) ?? fatal[0] ?? lines.at(-1) ?? ''
  return line.replace(/^.*?(?:FATAL|PANIC): {2}/, '').slice(0, 500)
}
