/**
 * `espalier instance prepare`: prepares an instance's volume before every start of Postgres. It initialises an empty
 * volume once, completes steps that a crash interrupted, adopts a copied volume, and writes the configuration. It
 * refuses every step that would lose data. If it is killed at any point, the next run ends in the same state.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type InstanceConfiguration, readInstanceConfiguration } from './configuration.ts'
import { close } from './copy.ts'
import { readIfPresent, removeDurably, renameDurably, syncDirectory, writeDurably } from './files.ts'
import { initialise } from './initialise.ts'
import { logSettings } from './log/directory.ts'
import { prepareLog } from './log/prepare.ts'
import { acceptedDirectory, checkConfiguration, writeConfiguration } from './postgres-files.ts'
import { clearRecovery, recover, recoveredSoFar } from './recovery/index.ts'
import { archiveTlsVariable, type RecoverySource } from './recovery/source.ts'
import { Refusal } from './refusal.ts'
import { tlsSettings } from './tls.ts'
import { dataDirectory, type Identity, identityFile, inspectVolume, planVolume, stagingPrefix } from './volume.ts'

export type PrepareOptions = {
  /** The volume; Postgres's data directory is its `pgdata`. */
  data: string
  /** The mounted ConfigMap, with `instance.json` and the files that Postgres reads there. */
  configuration: string
  /** The mounted Secret, with `tls.crt`, `tls.key` and `ca.crt`. */
  tls: string
  /** Whether an agent limits a log on the volume. If so, Postgres writes its log there. */
  keepsLog?: boolean
  /** The mounted Secret with the certificate for the archive, if the data are recovered from the archive. */
  archiveTls?: string | undefined
}

/** @throws Refusal and errors of the file system (see refusalOf) */
export async function prepare(options: PrepareOptions): Promise<{ initialised: boolean }> {
  const wanted = readInstanceConfiguration(options.configuration)
  const { data: root, configuration, keepsLog = false } = options
  const mounts: Mounts = { configuration, settings: tlsSettings(options.tls, process.getuid?.() ?? 0) }
  const volume = inspectVolume(root)
  const steps = planVolume(volume, wanted)

  const isRecovering = steps.some(step => step.do === 'recover')
  const keep = isRecovering ? recoveredSoFar(root, wanted.recover) : steps.find(step => step.do === 'publish')?.staging
  for (const name of volume.staged) if (name !== keep) removeLeftover(join(root, name))
  for (const step of steps) {
    if (step.do === 'initialise') initialiseVolume(root, wanted, mounts)
    else if (step.do === 'recover')
      await recoverVolume(root, step.source, wanted, { ...mounts, archiveTls: options.archiveTls })
    else if (step.do === 'publish') publish(root, step.staging)
    else adopt(root, step.identity, wanted)
  }
  clearRecovery(root)
  const log = keepsLog ? prepareLog(root, wanted.databaseId) : undefined
  if (log !== undefined) mounts.settings = { ...mounts.settings, ...logSettings(log) }
  writeConfiguration(root, join(root, dataDirectory), wanted, mounts)
  checkConfiguration(root, wanted, mounts)
  return { initialised: steps.some(step => step.do === 'initialise') }
}

/** If an initdb outlived its parent, it may still write there. The next start removes its files. */
function removeLeftover(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOTEMPTY')) throw error
  }
}

/** The owner that the identity file names: database, incarnation and member. */
const named = ({ databaseId, incarnation, member }: InstanceConfiguration) => ({
  ...{ databaseId, incarnation },
  ...(member === undefined ? {} : { member }),
})

const writeIdentity = (root: string, identity: Identity): void =>
  writeDurably(join(root, identityFile), `${JSON.stringify(identity)}\n`)

/** `settings`: the settings that only this pod knows. */
type Mounts = { configuration: string; settings: Record<string, string> }

function initialiseVolume(root: string, wanted: InstanceConfiguration, mounts: Mounts): void {
  const { pgVersion } = wanted
  const staging = `${stagingPrefix}${randomBytes(4).toString('hex')}`
  const directory = join(root, staging)
  mkdirSync(directory, { mode: 0o700 })
  initialise(directory, pgVersion)
  writeConfiguration(root, directory, wanted, mounts)
  syncDirectory(root)
  writeIdentity(root, { ...named(wanted), initialisedAt: new Date().toISOString(), pgVersion, staging })
  publish(root, staging)
}

/** Recovers the data from the archive. They are a copy of their source, so the volume starts closed. */
async function recoverVolume(
  root: string,
  source: RecoverySource,
  wanted: InstanceConfiguration,
  { archiveTls, ...mounts }: Mounts & { archiveTls: string | undefined },
): Promise<void> {
  if (archiveTls === undefined)
    throw new Refusal(
      'configuration',
      `${archiveTlsVariable} must name the directory of the certificate for the archive`,
    )
  const { pgVersion } = wanted
  const staging = await recover(root, {
    ...{ source, tls: archiveTls, stagingPrefix },
    configure: name => writeConfiguration(root, join(root, name), wanted, mounts),
  })
  refuseOtherVersion(join(root, staging), pgVersion)
  close(root)
  writeIdentity(root, { ...named(wanted), initialisedAt: new Date().toISOString(), pgVersion, staging })
  publish(root, staging)
}

function refuseOtherVersion(directory: string, pgVersion: string): void {
  const version = readIfPresent(join(directory, 'PG_VERSION'))?.trim()
  if (version !== pgVersion)
    throw new Refusal(
      'wrong-version',
      `the backup contains data of Postgres ${version}, the database needs ${pgVersion}`,
    )
}

const publish = (root: string, staging: string): void => renameDurably(join(root, staging), join(root, dataDirectory))

/**
 * Adopts a copy. A copy contains the lock file of its source's server, whose process id is meaningless here. The lock
 * file is removed before the identity changes, and never again: at an ordinary start, it prevents two servers on one
 * data directory. The files that the source's Postgres accepted are also removed, so that Postgres never falls back to
 * them. From here on the volume is closed.
 */
function adopt(root: string, source: Identity, wanted: InstanceConfiguration): void {
  removeDurably(join(root, dataDirectory, 'postmaster.pid'))
  rmSync(join(root, acceptedDirectory), { recursive: true, force: true })
  close(root)
  const { pgVersion } = wanted
  writeIdentity(root, { ...named(wanted), initialisedAt: source.initialisedAt, pgVersion })
}
