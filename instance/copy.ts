/**
 * A volume that began as a copy of another stays closed until the operator has opened it: Postgres starts without workers
 * that would apply what its source subscribes to, and lets in nobody but the operator. What says so stands on the volume
 * itself, so that no lost status, stale file or crash opens a copy before its time:
 *
 *     espalier-copy/                made when the copy is adopted
 *     espalier-copy/pg_hba.conf     who may come in: the operator, and whom the next file names
 *     espalier-copy/opened_hba.conf, opened.conf
 *                                   written by the operator, through Postgres, to open it; from the next start on the copy
 *                                   is a volume as any other
 */
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { syncDirectory, writeDurably } from './files.ts'
import { quoteSetting } from './settings.ts'

/** In the volume's root, beside the data directory. */
export const copyDirectory = 'espalier-copy'
/** Read by Postgres as soon as they are there and it reloads. */
export const openedFiles = { settings: 'opened.conf', hba: 'opened_hba.conf' } as const
/** A setting of ours, by which Postgres tells that it is closed. */
export const closedSetting = 'espalier.closed'

/** Marks the volume as a copy that nobody has opened, whatever it was before it was copied. */
export function close(root: string): void {
  const directory = join(root, copyDirectory)
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { mode: 0o700 })
  syncDirectory(root)
}

/** Whether a volume is a copy that nobody has opened yet. */
export const isClosed = (root: string): boolean => {
  const directory = join(root, copyDirectory)
  return existsSync(directory) && !existsSync(join(directory, openedFiles.settings))
}

/** The first line is pg_hba.conf's own for the operator, whose certificate is the only way in. */
const closedHba = (directory: string): string =>
  [
    '# Written before every start of a copy that is closed; changes made here are lost.',
    'hostssl  all  postgres  all  cert map=espalier',
    `include_if_exists "${join(directory, openedFiles.hba)}"`,
    '',
  ].join('\n')

/**
 * What the start of a closed copy takes beside all other settings; undefined for a volume that is none. The workers come back
 * with the first start after it was opened.
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
