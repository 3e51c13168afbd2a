/**
 * Verification of a durable backup. First the data are created from the archive: the base backup and the WAL after it.
 * Missing or damaged objects are a fault of the backup. If the archive does not answer, the result is unknown.
 */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { renameDurably } from '../files.ts'
import { clearRecovery, recover } from '../recovery/index.ts'
import { archiveTlsVariable, parseRecoverySource, type RecoverySource } from '../recovery/source.ts'
import { Refusal, type RefusalReason } from '../refusal.ts'
import { renderSettings } from '../settings.ts'
import { dataDirectory, inspectVolume, stagingPrefix } from '../volume.ts'
import { verify } from './index.ts'
import type { VerificationResult } from './result.ts'
import { copySettings } from './single-user.ts'

const faults: ReadonlySet<RefusalReason> = new Set(['archive-damaged', 'target-not-reached', 'recovery-failed'])

/**
 * @param recoverFrom a RecoverySource as JSON; undefined for a volume that already contains its data
 * @throws Refusal if nothing could be verified, and errors of the file system
 */
export async function verifyCopy(root: string, recoverFrom: string | undefined): Promise<VerificationResult> {
  if (recoverFrom === undefined || inspectVolume(root).data === 'whole') return verify(root)
  try {
    await recoverCopy(root, parseSource(recoverFrom))
  } catch (error) {
    if (!(error instanceof Refusal) || !faults.has(error.reason)) throw error
    const counts = { databases: 0, relations: 0, indexes: 0, pages: 0 }
    return { version: '', ...counts, faults: 1, findings: [error.message.slice(0, longestFinding)] }
  }
  return verify(root)
}

const longestFinding = 300

function parseSource(text: string): RecoverySource {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new Refusal('usage', '--recover must be JSON', { cause })
  }
  const source = parseRecoverySource(value)
  if ('wrong' in source) throw new Refusal('usage', `--recover: ${source.wrong} is wrong`)
  return source
}

async function recoverCopy(root: string, source: RecoverySource): Promise<void> {
  const tls = process.env[archiveTlsVariable]
  if (!tls)
    throw new Refusal(
      'configuration',
      `${archiveTlsVariable} must name the directory of the certificate for the archive`,
    )
  const staging = await recover(root, { source, tls, stagingPrefix, configure: name => configure(join(root, name)) })
  renameDurably(join(root, staging), join(root, dataDirectory))
  clearRecovery(root)
}

/**
 * Writes a new configuration, because that of the source names files that do not exist here. Its pg_hba.conf admits no
 * connection.
 */
function configure(directory: string): void {
  chmodSync(directory, 0o700)
  const files = {
    'postgresql.conf': renderSettings(copySettings),
    'postgresql.auto.conf': '',
    'pg_hba.conf': 'local all all reject\n',
    'pg_ident.conf': '',
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content, { mode: 0o600 })
}
