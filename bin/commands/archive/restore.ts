/**
 * `espalier archive restore`: creates a data directory from a base backup, with only the store, the key and this
 * program.
 */
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { completeBackups, readManifest, readParts, readRecord } from '../../../archive/backup/read.ts'
import type { BackupRecord } from '../../../archive/backup/record.ts'
import type { Incarnation } from '../../../archive/names.ts'
import type { Archive } from '../../../archive/put.ts'
import { extractBackup } from '../../../instance/restore/extract.ts'
import { parseManifest } from '../../../instance/restore/manifest.ts'
import { type Command, parseFlags, UsageError } from '../../command.ts'
import {
  incarnationHelp,
  incarnationOf,
  incarnationOptions,
  required,
  storeHelp,
  storeOptions,
  withArchive,
} from './open.ts'

const help = `Creates a data directory from a base backup. Every file is checked against the backup's manifest.

Usage: espalier archive restore --store URL --key-file FILE --database ID --target DIRECTORY [options]

  --target DIRECTORY       the directory to write; it must be empty or missing
  --backup ID              the backup to use (default: the newest)
  --restore-command TEXT   also sets up recovery: Postgres then reads WAL with this command, for example
                           'espalier archive fetch --store ... %f %p'
  --target-time TIME       recovers up to this time, RFC 3339 (default: to the end of the archive)
  --target-lsn LSN         recovers up to this position

${incarnationHelp}

${storeHelp}

Without --restore-command, Postgres recovers to the end of the backup. Start Postgres of the same major version on the directory.
If Postgres runs as another user, change the owner of the directory first.`

const rfc3339 = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$/
const lsn = /^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/

const command: Command = {
  help,
  async run(args) {
    const flags = parseFlags(args, {
      ...storeOptions,
      ...incarnationOptions,
      target: { type: 'string' },
      backup: { type: 'string' },
      'restore-command': { type: 'string' },
      'target-time': { type: 'string' },
      'target-lsn': { type: 'string' },
    })
    const incarnation = incarnationOf(flags)
    const recovery = recoveryOf(flags)
    const directory = resolve(required(flags, 'target'))
    await prepare(directory)
    const { id, record, bytes } = await withArchive(flags, async archive => {
      const { id, record } = await chosen(archive, incarnation, flags.backup)
      const manifest = parseManifest(await readManifest(archive, incarnation, id, record))
      return {
        id,
        record,
        bytes: await extractBackup(readParts(archive, incarnation, id, record), manifest, directory),
      }
    })
    if (recovery !== undefined) await setUpRecovery(directory, recovery)
    console.log(`Backup ${id}, of ${record.endedAt}: ${Math.ceil(bytes / 2 ** 20)} MiB in ${directory}`)
    return 0
  },
}
export default command

type Flags = { [name in 'restore-command' | 'target-time' | 'target-lsn']?: string | undefined }

/** Returns the recovery settings of Postgres, or undefined if Postgres recovers only the backup. @throws UsageError */
function recoveryOf(flags: Flags): Record<string, string> | undefined {
  const { 'restore-command': restoreCommand, 'target-time': time, 'target-lsn': position } = flags
  if (time !== undefined && !rfc3339.test(time))
    throw new UsageError('--target-time must be RFC 3339, for example 2026-01-31T12:00:00Z')
  if (position !== undefined && !lsn.test(position))
    throw new UsageError('--target-lsn must be a WAL position, for example 0/16B3748')
  if (time !== undefined && position !== undefined)
    throw new UsageError('--target-time and --target-lsn cannot be combined')
  if (restoreCommand === undefined) {
    if (time !== undefined || position !== undefined)
      throw new UsageError('--target-time and --target-lsn require --restore-command')
    return undefined
  }
  return {
    restore_command: restoreCommand,
    recovery_target_timeline: 'latest',
    ...(time === undefined ? {} : { recovery_target_time: withOffset(time) }),
    ...(position === undefined ? {} : { recovery_target_lsn: position }),
    ...(time === undefined && position === undefined ? {} : { recovery_target_action: 'promote' }),
  }
}

/** Replaces `Z`: Postgres reads its configuration before it loads time zone abbreviations such as `Z`. */
const withOffset = (time: string): string => time.replace(/Z$/, '+00')

async function prepare(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  if ((await readdir(directory)).length > 0) throw new UsageError('--target must be empty')
}

async function chosen(
  archive: Archive,
  incarnation: Incarnation,
  wanted: string | undefined,
): Promise<{ id: string; record: BackupRecord }> {
  if (wanted !== undefined) {
    const record = await readRecord(archive, incarnation, wanted)
    if (record === undefined) throw new UsageError(`there is no complete backup ${wanted}`)
    return { id: wanted, record }
  }
  let newest: { id: string; record: BackupRecord } | undefined
  for await (const found of completeBackups(archive, incarnation)) newest = found
  if (newest === undefined) throw new UsageError('there is no backup of this database')
  return newest
}

/** Appends the settings to a file that Postgres reads after postgresql.conf. A later line has priority. */
async function setUpRecovery(directory: string, settings: Record<string, string>): Promise<void> {
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'\n`)
  await writeFile(join(directory, 'postgresql.auto.conf'), lines.join(''), { flag: 'a', mode: 0o600 })
  await writeFile(join(directory, 'recovery.signal'), '', { mode: 0o600 })
}
