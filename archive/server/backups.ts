/**
 * Lists base backups, and receives a backup's record. Stores the record only if the archive has every listed object,
 * with the listed digest and size.
 */
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { completeBackups } from '../backup/read.ts'
import { type BackupRecord, backupNames, backupRecord } from '../backup/record.ts'
import { ArchiveError } from '../errors.ts'
import type { Incarnation } from '../names.ts'
import type { Content } from '../object/header.ts'
import { type Archive, putOnce, readHeader } from '../put.ts'
import { type Answer, refusal } from './answer.ts'
import { parseContent } from './content.ts'

/** A record has about 94 bytes for each part. So this limits a backup to about 3.0 TB, in parts of 16 MiB. */
const mostRecordBytes = 16 * 1024 * 1024
const concurrentReads = 32

export async function listBackups(
  archive: Archive,
  { incarnation, after }: { incarnation: Incarnation; after: string | undefined },
  most: number,
): Promise<Answer> {
  const backups: unknown[] = []
  for await (const { id, record } of completeBackups(archive, incarnation, after)) {
    const { parts: _, ...rest } = record
    backups.push({ id, ...rest })
    if (backups.length === most) break
  }
  return { status: 200, body: { backups, hasMore: backups.length === most } }
}

type Incoming = AsyncIterable<Buffer> & { headers: { [name: string]: string | string[] | undefined } }

/** Stores a backup's record. Responds with the stored size of the backup's parts and manifest. */
export async function receiveRecord(
  archive: Archive,
  { incarnation, id, name }: { incarnation: Incarnation; id: string; name: string },
  request: Incoming,
  signal: AbortSignal,
): Promise<Answer> {
  const content = parseContent(request.headers, mostRecordBytes)
  if (content.kind === 'refused') return content.answer
  if (content.isCompressed)
    return refusal(415, 'bad_request', 'content-encoding: not allowed for a record; send it uncompressed')
  const bytes = await buffer(request)
  const { size, sha256 } = content.value
  if (bytes.length !== size)
    throw new ArchiveError({ kind: 'content differs', name, detail: `it has ${bytes.length} bytes, not ${size}` })
  const digest = createHash('sha256').update(bytes).digest('hex')
  if (digest !== sha256)
    throw new ArchiveError({ kind: 'content differs', name, detail: `its SHA-256 is ${digest}, not ${sha256}` })
  const record = parseRecord(bytes)
  if (record === undefined)
    return refusal(
      400,
      'bad_request',
      "body: must be a valid backup record; `bytes` must be the sum of the parts' sizes",
    )
  const checked = await storedBytesOf(archive, incarnation, id, record)
  if ('wrong' in checked)
    return refusal(
      409,
      'incomplete',
      `${checked.wrong} is missing in the archive, or its content differs from the SHA-256 or size in the record`,
    )
  const source = (async function* () {
    yield bytes
  })()
  const result = await putOnce(archive, { name, content: content.value, source, isVerified: true }, signal)
  return { status: result === 'created' ? 201 : 200, body: { storedBytes: checked.storedBytes } }
}

function parseRecord(bytes: Buffer): BackupRecord | undefined {
  try {
    const { data } = backupRecord.safeParse(JSON.parse(bytes.toString('utf8')))
    const sum = data?.parts.reduce((total, { size }) => total + size, 0)
    return data !== undefined && sum === data.bytes ? data : undefined
  } catch {
    return undefined
  }
}

/** The stored size of the backup's parts and manifest. Reads each object's header, and not its content. */
async function storedBytesOf(
  archive: Archive,
  incarnation: Incarnation,
  id: string,
  { parts, manifest }: BackupRecord,
): Promise<{ storedBytes: number } | { wrong: string }> {
  const names = backupNames(incarnation, id)
  const expected = [
    ...parts.map((content, index) => ({ name: names.part(index + 1), content })),
    { name: names.manifest, content: manifest },
  ]
  let storedBytes = 0
  for (let at = 0; at < expected.length; at += concurrentReads) {
    const some = expected.slice(at, at + concurrentReads)
    const sizes = await Promise.all(some.map(one => storedSizeOf(archive, one)))
    const missing = sizes.indexOf(undefined)
    if (missing >= 0) return { wrong: some[missing]?.name ?? '' }
    storedBytes += sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
  }
  return { storedBytes }
}

/** Undefined if the object does not exist or has other content. */
async function storedSizeOf(
  archive: Archive,
  { name, content }: { name: string; content: Content },
): Promise<number | undefined> {
  const stored = (await readHeader(archive, name))?.content
  if (stored?.sha256 !== content.sha256 || stored.size !== content.size) return undefined
  return (await archive.store.stat(name))?.size
}
