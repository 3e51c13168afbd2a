/** Writes the full state into one file that is either complete and on disk, or missing. */
import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as breathe } from 'node:timers/promises'
import type { JsonObject } from './json.ts'
import { logFile, type OpenFile } from './log-file.ts'
import { batchPayload, endPayload, type Header, headerPayload, putText } from './records.ts'
import { snapshotName } from './recovery.ts'

/** The name of an incomplete snapshot; there is at most one. */
export const unfinishedSnapshot = 'snapshot.new'
const chunkBytes = 512 * 1024

/**
 * @param objects the state at `header.version`
 * @returns the snapshot's size in bytes
 */
export async function writeSnapshot(
  directory: string,
  header: Header,
  objects: readonly JsonObject[],
  openFile: OpenFile,
  syncNames: () => Promise<void> = () => syncDirectory(directory),
): Promise<number> {
  const path = join(directory, unfinishedSnapshot)
  const file = await openFile(path, 'w', 0o600)
  let bytes = 0
  try {
    const log = logFile(file, 0)
    await log.write(headerPayload(header))
    for (const chunk of chunks(objects)) {
      await log.write(batchPayload(chunk))
      // Pauses, because the store serves requests while it writes a snapshot.
      await breathe()
    }
    await log.append(endPayload(objects.length))
    bytes = log.length
  } finally {
    await file.close()
  }
  await rename(path, join(directory, snapshotName(header.number)))
  await syncNames()
  return bytes
}

function* chunks(objects: readonly JsonObject[]): Iterable<string[]> {
  let chunk: string[] = []
  let size = 0
  for (const object of objects) {
    const text = putText(JSON.stringify(object))
    chunk.push(text)
    size += text.length
    if (size < chunkBytes) continue
    yield chunk
    chunk = []
    size = 0
  }
  if (chunk.length > 0) yield chunk
}

/** Makes created and deleted names in a directory survive a power failure. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
