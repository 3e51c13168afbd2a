/** Reads base backups of the archive. */
import { buffer } from 'node:stream/consumers'

import { ArchiveError } from '../errors.ts'
import { type Incarnation, isUuid } from '../names.ts'
import type { Content } from '../object/header.ts'
import { unsealed } from '../object/seal.ts'
import type { Archive } from '../put.ts'
import { type BackupRecord, backupNames, backupRecord, backupsPrefix } from './record.ts'

const recordName = /\/backups\/([^/]+)\/record$/

/** The ids of complete backups, in order. UUIDv7 begin with the time, so the newest is the last. */
export async function* backupIds({ store }: Archive, incarnation: Incarnation): AsyncGenerator<string> {
  for await (const { name } of store.list(backupsPrefix(incarnation))) {
    const id = recordName.exec(name)?.[1]
    if (id !== undefined && isUuid(id)) yield id
  }
}

/** Undefined if there is no such backup, or it is not complete. @throws ArchiveError */
export async function readRecord(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
): Promise<BackupRecord | undefined> {
  const { record: name } = backupNames(incarnation, id)
  const bytes = await readWhole(archive, name)
  if (bytes === undefined) return undefined
  const parsed = backupRecord.safeParse(JSON.parse(bytes.toString()))
  if (parsed.success) return parsed.data
  throw new ArchiveError({
    kind: 'damaged',
    name,
    detail: `it is of another version of Espalier: ${parsed.error.issues[0]?.path.join('.')}`,
  })
}

/** @throws ArchiveError `damaged` */
export async function readManifest(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
  { manifest }: BackupRecord,
): Promise<Buffer> {
  const name = backupNames(incarnation, id).manifest
  return buffer(contentOf(archive, name, manifest))
}

/** The tar archive of the data directory. @throws ArchiveError `damaged`, while it is read */
export async function* readParts(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
  { parts }: BackupRecord,
): AsyncGenerator<Buffer> {
  const names = backupNames(incarnation, id)
  for (const [index, part] of parts.entries())
    for await (const chunk of contentOf(archive, names.part(index + 1), part))
      yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
}

async function* contentOf({ store, keys }: Archive, name: string, expected: Content): AsyncGenerator<Uint8Array> {
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  const stored = await store.read(name)
  if (stored === undefined) throw damaged('it is missing')
  const { header, content } = await unsealed(stored, { name, keys })
  if (header.content?.sha256 !== expected.sha256)
    throw damaged('it has other content than the record of its backup says')
  yield* content
}

async function readWhole({ store, keys }: Archive, name: string): Promise<Buffer | undefined> {
  const stored = await store.read(name)
  if (stored === undefined) return undefined
  return buffer((await unsealed(stored, { name, keys })).content)
}
