/** Reads every page of a data directory without a running server, and checks its checksum. */
import { closeSync, openSync, readdirSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { isPageSound, pageBytes } from './checksum.ts'

/** Names of relation files (storage/file layout): number, fork, segment. Other files have no pages. */
const relationFile = /^\d+(?:_(?:fsm|vm|init))?(?:\.(\d+))?$/
/** Blocks per file of a relation: the next file continues with the next block. */
const blocksOfSegment = 131_072
const pagesAtOnce = 128

type PageFindings = { pages: number; faults: number; findings: string[] }

/**
 * Directories with relation files, below the data directory. Tablespaces would be outside the volume, so there are
 * none.
 */
const directories = (data: string): string[] => [
  'global',
  ...readdirSync(join(data, 'base'), { withFileTypes: true })
    .filter(entry => entry.isDirectory() && /^\d+$/.test(entry.name))
    .map(({ name }) => join('base', name)),
]

/** `most`: the maximum number of described findings. */
export function checkPages(data: string, most: number): PageFindings {
  const found: PageFindings = { pages: 0, faults: 0, findings: [] }
  const buffer = Buffer.from(new ArrayBuffer(pagesAtOnce * pageBytes))
  for (const directory of directories(data)) {
    for (const name of readdirSync(join(data, directory)).sort()) {
      const match = relationFile.exec(name)
      if (match !== null) checkFile(join(data, directory, name), join(directory, name), Number(match[1] ?? 0))
    }
  }
  return found

  function checkFile(path: string, name: string, segment: number): void {
    const file = openSync(path, 'r')
    try {
      let block = segment * blocksOfSegment
      for (;;) {
        const read = readFully(file, buffer)
        for (let at = 0; at < read; at += pageBytes, block++) {
          found.pages++
          if (at + pageBytes > read) report(name, block, 'is truncated')
          else if (!isPageSound(buffer, at, block)) report(name, block, 'does not match its checksum')
        }
        if (read < buffer.length) return
      }
    } finally {
      closeSync(file)
    }
  }

  function report(name: string, block: number, what: string): void {
    found.faults++
    if (found.findings.length < most) found.findings.push(`page ${block} of ${name} ${what}`)
  }
}

/** Fills the buffer up to the end of the file. One read may return less. */
function readFully(file: number, buffer: Buffer): number {
  let filled = 0
  while (filled < buffer.length) {
    const read = readSync(file, buffer, filled, buffer.length - filled, null)
    if (read === 0) break
    filled += read
  }
  return filled
}
