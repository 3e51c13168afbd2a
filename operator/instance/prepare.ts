/**
 * `espalier instance prepare`: makes an instance's volume ready for Postgres to start on, before every start. It
 * initialises an empty volume once, finishes what a crash cut off, makes a copied volume its own, writes the
 * configuration, and refuses whatever would lose data. Killed at any point, the next run ends in the same state.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { configurationFiles, type InstanceConfiguration, readInstanceConfiguration } from './configuration.ts'
import { removeDurably, renameDurably, syncDirectory, writeDurably } from './files.ts'
import { initialise } from './initialise.ts'
import { renderSettings } from './settings.ts'
import { tlsSettings } from './tls.ts'
import { dataDirectory, type Identity, identityFile, inspectVolume, planVolume, stagingPrefix } from './volume.ts'

export type PrepareOptions = {
  /** The volume; Postgres's data directory is `pgdata` in it. */
  data: string
  /** The mounted ConfigMap, with `instance.json`. */
  configuration: string
  /** The mounted Secret, with `tls.crt`, `tls.key` and `ca.crt`. */
  tls: string
}

/** @throws Refusal and errors of the file system (see refusalOf) */
export function prepare(options: PrepareOptions): { initialised: boolean } {
  const wanted = readInstanceConfiguration(options.configuration)
  const tls = tlsSettings(options.tls, process.getuid?.() ?? 0)
  const root = options.data
  const volume = inspectVolume(root)
  const steps = planVolume(volume, wanted)

  const keep = steps.find(step => step.do === 'publish')?.staging
  for (const name of volume.staged) if (name !== keep) removeLeftover(join(root, name))
  for (const step of steps) {
    if (step.do === 'initialise') initialiseVolume(root, wanted, tls)
    else if (step.do === 'publish') publish(root, step.staging)
    else adopt(root, step.identity, wanted)
  }
  writeConfiguration(join(root, dataDirectory), wanted, tls)
  return { initialised: steps.some(step => step.do === 'initialise') }
}

/** An initdb that outlived its parent may still write there: what it leaves is removed at the next start. */
function removeLeftover(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOTEMPTY')) throw error
  }
}

const writeIdentity = (root: string, identity: Identity): void =>
  writeDurably(join(root, identityFile), `${JSON.stringify(identity)}\n`)

function initialiseVolume(root: string, wanted: InstanceConfiguration, tls: Record<string, string>): void {
  const { databaseId, incarnation, pgVersion } = wanted
  const staging = `${stagingPrefix}${randomBytes(4).toString('hex')}`
  const directory = join(root, staging)
  mkdirSync(directory, { mode: 0o700 })
  initialise(directory, pgVersion)
  writeConfiguration(directory, wanted, tls)
  syncDirectory(root)
  writeIdentity(root, { databaseId, incarnation, initialisedAt: new Date().toISOString(), pgVersion, staging })
  publish(root, staging)
}

const publish = (root: string, staging: string): void => renameDurably(join(root, staging), join(root, dataDirectory))

/**
 * A copy carries the lock file of the server it was copied from, whose process id means nothing here. It is removed
 * before the identity changes, and never again afterwards: at an ordinary start that file is what keeps two servers
 * off one data directory.
 */
function adopt(root: string, source: Identity, wanted: InstanceConfiguration): void {
  removeDurably(join(root, dataDirectory, 'postmaster.pid'))
  const { databaseId, incarnation, pgVersion } = wanted
  writeIdentity(root, { databaseId, incarnation, initialisedAt: source.initialisedAt, pgVersion })
}

/**
 * Writes our files and empties postgresql.auto.conf: whatever ALTER SYSTEM left there, even in a copy, ends here. (No
 * user may run it, and from 17 on it is switched off too.)
 */
function writeConfiguration(directory: string, { files }: InstanceConfiguration, tls: Record<string, string>): void {
  // A volume that Kubernetes gave to a group has g+rwxs on everything; Postgres starts on 0700 or 0750 only.
  if ((statSync(directory).mode & 0o7777) !== 0o700) chmodSync(directory, 0o700)
  for (const name of configurationFiles) {
    const text =
      name === 'postgresql.conf' ? `${files[name]}\n# The mounted certificate.\n${renderSettings(tls)}` : files[name]
    writeDurably(join(directory, name), text)
  }
  writeDurably(join(directory, 'postgresql.auto.conf'), '')
}
