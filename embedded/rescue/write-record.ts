/**
 * Writes the record next to a volume's directory, completely or not at all. Removes leftovers of a write that a crash
 * interrupted.
 */
import { open, readFile, rename, rm } from 'node:fs/promises'
import { recordFile, unfinishedRecord } from '../runtime/volumes/persistent-volume.ts'

/** Does not write an unchanged record. At most one caller at a time may write the record of a directory. */
export async function writeRecord(directory: string, text: string): Promise<void> {
  const [path, unfinished] = [recordFile(directory), unfinishedRecord(directory)]
  try {
    if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return
    const file = await open(unfinished, 'w', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } finally {
    await rm(unfinished, { force: true })
  }
}
