/**
 * Creates the data of a new volume from the archive: a base backup, and WAL up to a moment. It may be killed at any
 * moment:
 *
 *     pgdata.new-<random>/       the data; started again unless the next file names it
 *     espalier-recovery.json     records that the base backup is extracted, and later that WAL is replayed
 *     espalier-recovery/         WAL that is being fetched; can be deleted
 *
 * The data are published like those of initdb: first the identity file names them, then they are renamed to their final
 * path.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { digestOfFile } from '../archive/digests.ts'
import { isSegment } from '../archive/wal.ts'
import { readIfPresent, removeDurably, syncDirectory, writeDurably } from '../files.ts'
import { isRecord } from '../record.ts'
import { extractBase } from './base.ts'
import { openArchiveReader } from './client.ts'
import { replay } from './replay.ts'
import type { RecoverySource } from './source.ts'
import { WalSupply } from './wal.ts'

const recoveryFile = 'espalier-recovery.json'
const walDirectory = 'espalier-recovery'

/** `wal`: SHA-256, in hexadecimal digits, of the segments in the base backup. Earlier versions did not record it. */
type Progress = { step: 'extracted' | 'replayed'; staging: string; of: string; wal?: Record<string, string> }

const sameSource = (source: RecoverySource): string => JSON.stringify(source)

const isTexts = (value: unknown): value is Record<string, string> =>
  isRecord(value) && Object.values(value).every(text => typeof text === 'string')

/** The progress of an earlier run with the same source; undefined if there is none. */
function progressOf(root: string, source: RecoverySource): Progress | undefined {
  try {
    const value: unknown = JSON.parse(readIfPresent(join(root, recoveryFile)) ?? '')
    if (!isRecord(value)) return undefined
    const { step, staging, of, wal } = value
    const isKnown = (step === 'extracted' || step === 'replayed') && typeof staging === 'string'
    if (!isKnown || of !== sameSource(source) || !existsSync(join(root, staging, 'PG_VERSION'))) return undefined
    return { step, staging, of, ...(isTexts(wal) ? { wal } : {}) }
  } catch {
    return undefined
  }
}

/** The directory of an earlier run to continue; undefined if there is none. */
export const recoveredSoFar = (root: string, source: RecoverySource | undefined): string | undefined =>
  source === undefined ? undefined : progressOf(root, source)?.staging

type Work = {
  source: RecoverySource
  /** The directory of the client's certificate. */
  tls: string
  stagingPrefix: string
  /** Writes the configuration for Postgres's replay. */
  configure: (staging: string) => void
}

/** @returns the name of the directory with the complete data @throws Refusal */
export async function recover(root: string, { source, tls, stagingPrefix, configure }: Work): Promise<string> {
  const reader = openArchiveReader(source, { tls })
  try {
    let progress = progressOf(root, source)
    if (progress === undefined) {
      removeDurably(join(root, recoveryFile))
      const staging = `${stagingPrefix}${randomBytes(4).toString('hex')}`
      mkdirSync(join(root, staging), { mode: 0o700 })
      await extractBase(reader, source, join(root, staging))
      syncDirectory(root)
      const wal = await digestsOfWal(join(root, staging, 'pg_wal'))
      progress = noted(root, { step: 'extracted', staging, of: sameSource(source), wal })
    }
    const { staging } = progress
    if (progress.step === 'extracted') {
      configure(staging)
      const ofBackup = new Map(
        Object.entries(progress.wal ?? {}).map(([name, text]) => [name, Buffer.from(text, 'hex')]),
      )
      await replayed(root, join(root, staging), source, new WalSupply(join(root, walDirectory), reader, ofBackup))
      noted(root, { ...progress, step: 'replayed' })
    }
    return staging
  } finally {
    reader.close()
  }
}

async function digestsOfWal(directory: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const name of existsSync(directory) ? readdirSync(directory) : []) {
    const digest = isSegment(name) ? await digestOfFile(join(directory, name)) : undefined
    if (digest !== undefined) found[name] = digest.sha256.toString('hex')
  }
  return found
}

async function replayed(root: string, directory: string, source: RecoverySource, wal: WalSupply): Promise<void> {
  wal.start()
  try {
    await replay(directory, source, wal)
  } finally {
    await wal.stop()
    syncDirectory(root)
  }
}

function noted(root: string, progress: Progress): Progress {
  writeDurably(join(root, recoveryFile), JSON.stringify(progress))
  return progress
}

/** Removes a recovery's other files once the data are published. */
export function clearRecovery(root: string): void {
  if (existsSync(join(root, recoveryFile))) removeDurably(join(root, recoveryFile))
  rmSync(join(root, walDirectory), { recursive: true, force: true })
}
