/** Reads base backups from the archive. */
import { buffer } from 'node:stream/consumers'

import { ahead } from '../../instance/restore/ahead.ts'
import { ArchiveError } from '../errors.ts'
import { type Incarnation, isUuid } from '../names.ts'
import { unsealedComplete } from '../object/complete.ts'
import type { Content } from '../object/header.ts'
import { unsealed } from '../object/seal.ts'
import type { Archive } from '../put.ts'
import { type BackupRecord, backupNames, backupRecord, backupsPrefix } from './record.ts'

/** The number of parts that are read ahead while another part is extracted. */
const partsAhead = 2

/**
 * The ids of all backups, including incomplete backups, in order. A UUIDv7 begins with the time, so the newest backup
 * is the last. Reads one name of each backup, and begins the next list after all names of this backup,
 * so that it does not list the backup's parts.
 */
export async function* begunBackups(
  { store }: Archive,
  incarnation: Incarnation,
  after?: string,
): AsyncGenerator<string> {
  const prefix = backupsPrefix(incarnation)
  // `~` sorts after every character in names.
  const behind = (id: string): string => `${prefix}${id}/~`
  for (let last = after === undefined ? undefined : behind(after); ; ) {
    let id: string | undefined
    for await (const { name } of store.list(prefix, last)) {
      id = name.slice(prefix.length).split('/')[0]
      break
    }
    if (id === undefined) return
    if (isUuid(id)) yield id
    last = behind(id)
  }
}

/**
 * Complete backups, sorted by id. With `after`, only backups with a greater id.
 * @throws ArchiveError; `damaged` if a record is invalid
 */
export async function* completeBackups(
  archive: Archive,
  incarnation: Incarnation,
  after?: string,
): AsyncGenerator<{ id: string; record: BackupRecord }> {
  for await (const id of begunBackups(archive, incarnation, after)) {
    const record = await readRecord(archive, incarnation, id)
    if (record !== undefined) yield { id, record }
  }
}

/**
 * Returns a backup's record. Undefined if the backup does not exist or is incomplete.
 * @throws ArchiveError; `damaged` if the record is invalid
 */
export async function readRecord(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
): Promise<BackupRecord | undefined> {
  const { record: name } = backupNames(incarnation, id)
  const bytes = await readComplete(archive, name)
  if (bytes === undefined) return undefined
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  const json = jsonOf(bytes)
  if (json === undefined) throw damaged('the backup record is not valid JSON')
  const parsed = backupRecord.safeParse(json)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const field = issue?.path.length ? `${issue.path.join('.')}: ` : ''
  throw damaged(
    `the backup record is invalid: ${field}${issue?.message}; a different version of Espalier may have written the record`,
  )
}

function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

/** @throws ArchiveError `damaged`, also if the manifest is missing; `store`, `unknown key` */
export async function readManifest(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
  { manifest }: BackupRecord,
): Promise<Buffer> {
  const name = backupNames(incarnation, id).manifest
  return contentOf(archive, name, manifest)
}

/**
 * The tar archive of the data directory, part by part.
 * @throws ArchiveError `damaged`, `store` or `unknown key`, while the parts are read
 */
export function readParts(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
  { parts }: BackupRecord,
): AsyncGenerator<Buffer> {
  const names = backupNames(incarnation, id)
  return ahead(parts, partsAhead, (part, index) => contentOf(archive, names.part(index + 1), part))
}

async function contentOf({ store, keys }: Archive, name: string, expected: Content): Promise<Buffer> {
  const stored = await store.read(name)
  if (stored === undefined)
    throw new ArchiveError({ kind: 'damaged', name, detail: 'the store has no object with this name' })
  return unsealedComplete(stored, { name, keys }, expected)
}

async function readComplete({ store, keys }: Archive, name: string): Promise<Buffer | undefined> {
  const stored = await store.read(name)
  if (stored === undefined) return undefined
  return buffer((await unsealed(stored, { name, keys })).content)
}
