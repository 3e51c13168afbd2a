/**
 * A volume that was copied from another volume stays closed until the operator has opened it. A closed Postgres starts
 * without workers that would apply its source's subscriptions, and admits only the operator. Files on the volume itself
 * record this state. So a lost status, an old file or a crash cannot open a copy too early:
 *
 *     espalier-copy/                created when the copy is adopted
 *     espalier-copy/pg_hba.conf     admits the operator, and clients in the next file
 *     espalier-copy/opened_hba.conf, opened.conf
 *                                   written by the operator, through Postgres, to open it; from the next start on the copy
 *                                   is an ordinary volume
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { syncDirectory, writeDurably } from './files.ts'
import { quoteSetting } from './settings.ts'

/** In the volume's root, next to the data directory. */
export const copyDirectory = 'espalier-copy'
/** Postgres reads these files at a reload, if they exist. */
export const openedFiles = { settings: 'opened.conf', hba: 'opened_hba.conf' } as const
/** A setting of Espalier that shows that a Postgres is closed. */
export const closedSetting = 'espalier.closed'

/** Marks the volume as an unopened copy, whatever it was before. */
export function close(root: string): void {
  const directory = join(root, copyDirectory)
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { mode: 0o700 })
  syncDirectory(root)
}

/** Whether a volume is an unopened copy. */
export const isClosed = (root: string): boolean => {
  const directory = join(root, copyDirectory)
  return existsSync(directory) && !existsSync(join(directory, openedFiles.settings))
}

/** The first line is the operator's line of pg_hba.conf: the operator can only log in by certificate. */
const closedHba = (directory: string): string =>
  [
    '# Written before every start of a copy that is closed; changes made here are lost.',
    'hostssl  all  postgres  all  cert map=espalier',
    `include_if_exists "${join(directory, openedFiles.hba)}"`,
    '',
  ].join('\n')

/**
 * Additional settings for the start of a closed copy; undefined for other volumes. After the copy was opened, workers
 * run again from the next start on.
 */
export function closure(root: string): { settings: Record<string, string>; include: string } | undefined {
  if (!isClosed(root)) return undefined
  const directory = join(root, copyDirectory)
  const hba = join(directory, 'pg_hba.conf')
  writeDurably(hba, closedHba(directory))
  return {
    settings: { hba_file: hba, max_logical_replication_workers: '0', [closedSetting]: 'yes' },
    include: `include_if_exists ${quoteSetting(join(directory, openedFiles.settings))}\n`,
  }
}
