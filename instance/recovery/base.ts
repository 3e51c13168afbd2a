/**
 * Extracts a base backup from the archive to a data directory. It fetches a few parts ahead, so memory is bounded for
 * any size.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { syncDirectory } from '../files.ts'
import { isRecord } from '../record.ts'
import { Refusal } from '../refusal.ts'
import { ahead } from '../restore/ahead.ts'
import { extractBackup } from '../restore/extract.ts'
import { parseManifest } from '../restore/manifest.ts'
import { type ArchiveReader, type Content, readNeeded } from './client.ts'
import type { RecoverySource } from './source.ts'

/** Parts have 16 MiB. One part is extracted while two parts are fetched. */
const partsAhead = 2

type BackupRecord = { parts: Content[]; manifest: Content }

const whoseOf = ({ id, incarnation }: RecoverySource): string => `${id}/${incarnation}`

/**
 * Extracts the backup. The manifest checks every file, and all files are on disk when this returns.
 * @param directory exists and is empty
 * @throws Refusal `archive-damaged` that states the problem, `archive-unavailable`
 */
export async function extractBase(reader: ArchiveReader, source: RecoverySource, directory: string): Promise<void> {
  const prefix = `backups/${source.backup}`
  const whose = whoseOf(source)
  const { parts, manifest: expected } = parseRecord(
    await readNeeded(reader, `${prefix}/record`, whose),
    `${whose}/${prefix}/record`,
  )
  // The manifest checks the content of a part, and the manifest has its own digest.
  const read = (name: string, content: Content): Promise<Buffer> => readNeeded(reader, name, whose, content)
  const manifest = parseManifest(await read(`${prefix}/manifest`, expected))
  const inOrder = ahead(parts, partsAhead, (part, index) => read(`${prefix}/parts/${index + 1}`, part))
  try {
    await extractBackup(inOrder, manifest, directory)
  } catch (error) {
    // Errors of the file system have a code. All other errors concern the backup.
    if (error instanceof Refusal || (error instanceof Error && 'code' in error)) throw error
    throw new Refusal(
      'archive-damaged',
      `the backup ${whose}/${prefix}: ${error instanceof Error ? error.message : error}`,
    )
  }
  syncDirectories(directory)
}

function parseRecord(bytes: Buffer, name: string): BackupRecord {
  const wrong = () => new Refusal('archive-damaged', `${name} is not a record of a backup that this version can read`)
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch {
    throw wrong()
  }
  const content = (one: unknown): Content => {
    if (!isRecord(one) || typeof one.sha256 !== 'string' || typeof one.size !== 'number') throw wrong()
    return { sha256: one.sha256, size: one.size }
  }
  if (!isRecord(value) || value.version !== 1 || !Array.isArray(value.parts)) throw wrong()
  return { parts: value.parts.map(content), manifest: content(value.manifest) }
}

/** Makes the names of the files durable. Their content was synced when it was written. */
function syncDirectories(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true }))
    if (entry.isDirectory()) syncDirectories(join(directory, entry.name))
  syncDirectory(directory)
}
