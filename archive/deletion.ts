/**
 * Deletes a backup, WAL before a segment, or all objects of an incarnation. Each operation can be repeated.
 */
import { begunBackups } from './backup/read.ts'
import { backupNames, backupsPrefix } from './backup/record.ts'
import { type Incarnation, incarnationPrefix, tailPrefix, walPrefix } from './names.ts'
import type { Archive } from './put.ts'
import { deleteAll } from './tail.ts'

/** `hasMore`: more objects may remain. */
type Deleted = { deleted: number; hasMore: boolean }

/** Deletes the record first: readers ignore a backup without a record. @throws ArchiveError `store` */
export async function deleteBackup(archive: Archive, incarnation: Incarnation, id: string): Promise<void> {
  await archive.store.delete(backupNames(incarnation, id).record)
  const prefix = `${backupsPrefix(incarnation)}${id}/`
  for (;;) {
    const names = await first(archive, prefix, batch)
    await deleteAll(archive, names)
    if (names.length < batch) return
  }
}

const batch = 1000

async function first({ store }: Archive, prefix: string, most: number): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of store.list(prefix)) {
    names.push(name)
    if (names.length === most) break
  }
  return names
}

/**
 * First deletes the records of all backups, then up to `most` objects of an incarnation. Does not read the records: a
 * damaged record must not prevent the deletion.
 * @throws ArchiveError `store`
 */
export async function deleteIncarnation(archive: Archive, incarnation: Incarnation, most: number): Promise<Deleted> {
  for await (const id of begunBackups(archive, incarnation))
    await archive.store.delete(backupNames(incarnation, id).record)
  const names = await first(archive, incarnationPrefix(incarnation), most)
  await deleteAll(archive, names)
  return { deleted: names.length, hasMore: names.length === most }
}

/**
 * Deletes up to `most` files and pieces with a lower position than the segment `before`, on every timeline. Keeps
 * timeline history files: these files are small, and a recovery reads them.
 * @throws ArchiveError `store`
 */
export async function deleteWal(
  archive: Archive,
  incarnation: Incarnation,
  before: string,
  most: number,
): Promise<Deleted> {
  const names: string[] = []
  for (const prefix of [walPrefix(incarnation), tailPrefix(incarnation)])
    for await (const name of namesBefore(archive, prefix, before)) {
      if (names.length < most) names.push(name)
      else break
    }
  await deleteAll(archive, names)
  return { deleted: names.length, hasMore: names.length === most }
}

const segmentOf = /^([0-9A-F]{8})([0-9A-F]{16})/

async function* namesBefore({ store }: Archive, prefix: string, before: string): AsyncGenerator<string> {
  const position = before.slice(8)
  for (let after: string | undefined; ; ) {
    let next: string | undefined
    for await (const { name } of store.list(prefix, after)) {
      const [, timeline, found = ''] = segmentOf.exec(name.slice(prefix.length)) ?? []
      if (timeline === undefined) continue
      if (found < position) yield name
      else {
        // This timeline has no more names before the position: skip to the next timeline. `~` sorts after every
        // character in names.
        next = `${prefix}${timeline}~`
        break
      }
    }
    if (next === undefined) return
    after = next
  }
}
