/** The runtime's identity: an id that marks its processes, and its last network. Stored in its directory. */
import { createHash, randomUUID } from 'node:crypto'
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from './errors.ts'

type Stored = { id: string; network: number | undefined }

export type Identity = {
  /**
   * Distinguishes this runtime's processes from all others. The id is valid for this directory only: a copy of the
   * directory is another runtime, and must not end the processes of the original.
   */
  runtimeId: string
  /** The network that the next start reserves if it is free. */
  preferredNetwork: number | undefined
  rememberNetwork(network: number): void
}

function read(path: string): Stored | undefined {
  try {
    const { id, network }: Record<string, unknown> = JSON.parse(readFileSync(path, 'utf8'))
    return typeof id === 'string' ? { id, network: typeof network === 'number' ? network : undefined } : undefined
  } catch {
    return undefined // the first start
  }
}

export function openIdentity(directory: string): Identity {
  const path = join(directory, 'identity.json')
  const write = (stored: Stored) => {
    writeFileSync(`${path}.new`, JSON.stringify(stored), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  }
  const found = read(path)
  const stored = found ?? { id: randomUUID(), network: undefined }
  // Does not write an unchanged file, so that a start on a full disk does not fail here.
  if (found === undefined) write(stored)
  const { dev, ino } = statSync(directory)
  const hash = createHash('sha256').update(`${stored.id} ${dev} ${ino}`)
  return {
    runtimeId: hash.digest('hex').slice(0, 32),
    preferredNetwork: stored.network,
    rememberNetwork(network) {
      if (network === stored.network) return
      try {
        write({ ...stored, network })
      } catch (error) {
        if (errorCode(error) !== 'ENOSPC' && errorCode(error) !== 'EDQUOT') throw error
      }
    },
  }
}
