/**
 * Runs Postgres in single-user mode (Postgres manual, reference of `postgres`). It recovers, runs the statements, and
 * ends.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { removeDurably, writeDurably } from '../files.ts'
import { renderSettings } from '../settings.ts'
import { dataDirectory } from '../volume.ts'

const MiB = 2 ** 20

/**
 * The copy is deleted afterwards, so its durability does not matter. Slots and their settings belong to the source.
 * Prepared transactions are recovered. No library of the source is loaded.
 */
export const copySettings = {
  fsync: 'off',
  full_page_writes: 'off',
  archive_mode: 'off',
  listen_addresses: '',
  unix_socket_directories: '',
  shared_buffers: `${(64 * MiB) / 1024}kB`,
  maintenance_work_mem: `${(64 * MiB) / 1024}kB`,
  max_prepared_transactions: '1000',
  huge_pages: 'off',
  dynamic_shared_memory_type: 'mmap',
  logging_collector: 'off',
  log_destination: 'stderr',
  lc_messages: 'C',
  timezone: 'UTC',
  jit: 'off',
}

/** Creates a directory for Espalier's files on a copied volume, and removes the copy's links to its source. */
export function prepareCopy(root: string): { workspace: string } {
  const workspace = join(root, 'espalier-verification')
  const data = join(root, dataDirectory)
  rmSync(workspace, { recursive: true, force: true })
  mkdirSync(workspace, { mode: 0o700 })
  removeDurably(join(data, 'postmaster.pid'))
  for (const name of readdirSync(join(data, 'pg_replslot')))
    rmSync(join(data, 'pg_replslot', name), { recursive: true, force: true })
  writeDurably(join(data, 'postgresql.auto.conf'), '')
  writeDurably(join(workspace, 'postgresql.conf'), renderSettings(copySettings))
  return { workspace }
}

/**
 * Signals by which other processes end a process, for example the kernel without memory. They prove nothing about the
 * data.
 */
const byOthers: ReadonlySet<string> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP'])

/**
 * Returns Postgres's own message if it failed; undefined if it succeeded.
 * @throws Error if another process ended it
 */
export function runSingleUser(root: string, workspace: string, database: string, script: string): string | undefined {
  const configuration = join(workspace, 'postgresql.conf')
  const options = ['--single', '-j', '-D', join(root, dataDirectory), '-c', `config_file=${configuration}`]
  const result = spawnSync(
    'postgres',
    // Users name the database. A name that begins with a dash must not be parsed as an option.
    [...options, '--', database],
    {
      input: script,
      encoding: 'utf8',
      stdio: ['pipe', 'ignore', 'pipe'],
      maxBuffer: 64 * MiB,
      env: { ...process.env, TZ: 'UTC' },
    },
  )
  if (result.error !== undefined) throw result.error
  if (result.status === 0) return undefined
  if (result.signal !== null && byOthers.has(result.signal)) throw new Error(`Postgres was ended by ${result.signal}`)
  return `${lastWord(result.stderr)}${result.signal === null ? '' : ` (ended by ${result.signal})`}`
}

/** The line that states why a server ended. */
function lastWord(text: string): string {
  const lines = text.trim().split('\n')
  const line = lines.findLast(each => /(?:PANIC|FATAL|ERROR): {2}/.test(each)) ?? lines.at(-1) ?? ''
  return line.replace(/^.*?(?=(?:PANIC|FATAL|ERROR): {2})/, '').slice(0, 500)
}
