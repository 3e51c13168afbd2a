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
 *     espalier-copy/opened_hba.conf.d/, opened.conf.d/
 *                                   Postgres includes these directories; the two files are links into them
 */
import { existsSync, lstatSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { syncDirectory, writeDurably } from './files.ts'
import { quoteSetting } from './settings.ts'

/** In the volume's root, next to the data directory. */
export const copyDirectory = 'espalier-copy'
/** Postgres reads these files at a reload, once the operator has created them. */
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
const isClosed = (root: string): boolean => {
  const directory = join(root, copyDirectory)
  return existsSync(directory) && !existsSync(join(directory, openedFiles.settings))
}

/**
 * Called before a login: on a closed copy, Postgres would refuse the login, and users would see the refusal in the log.
 * @throws Error if the volume is a closed copy
 */
export function requireOpened(root: string): void {
  if (isClosed(root))
    throw new Error('Postgres does not accept connections: its volume is a copy that the operator has not opened yet')
}

const includedDirectory = (directory: string, name: string): string => join(directory, `${name}.d`)

/**
 * Makes the file a link into an empty directory that Postgres includes. An include of the file itself would log an error
 * at each reload until the file exists, and an empty file would mark the copy as open. Through the link, an operator of
 * any version creates the file in the directory. A file without a link remains if an earlier version stopped while the
 * operator opened the copy: the operator then writes it again.
 */
function linkIntoDirectory(directory: string, name: string): void {
  const path = join(directory, name)
  mkdirSync(includedDirectory(directory, name), { recursive: true, mode: 0o700 })
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return
  rmSync(path, { force: true })
  symlinkSync(join(`${name}.d`, name), path)
}

/** The first line is the operator's line of pg_hba.conf: the operator can only log in by certificate. */
const closedHba = (directory: string): string =>
  [
    '# Written before every start of a copy that is closed; changes made here are lost.',
    'hostssl  all  postgres  all  cert map=espalier',
    `include_dir "${includedDirectory(directory, openedFiles.hba)}"`,
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
  for (const name of Object.values(openedFiles)) linkIntoDirectory(directory, name)
  syncDirectory(directory)
  writeDurably(hba, closedHba(directory))
  return {
    settings: { hba_file: hba, max_logical_replication_workers: '0', [closedSetting]: 'yes' },
    include: `include_dir ${quoteSetting(includedDirectory(directory, openedFiles.settings))}\n`,
  }
}
