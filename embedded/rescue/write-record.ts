/** Writes the record beside a volume's directory: whole or not at all, and with nothing left of a try that a crash ended. */
import { open, readFile, rename, rm } from 'node:fs/promises'
import { recordFile, unfinishedRecord } from '../runtime/volumes/persistent-volume.ts'

/** Nothing is written where the record says this already. One caller at a time writes the record of a directory. */
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
