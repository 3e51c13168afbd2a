/**
 * `espalier instance prepare`: makes an instance's volume ready for Postgres to start on, before every start. It
 * initialises an empty volume once, finishes what a crash cut off, makes a copied volume its own, writes the
 * configuration, and refuses whatever would lose data. Killed at any point, the next run ends in the same state.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type InstanceConfiguration, readInstanceConfiguration } from './configuration.ts'
import { close } from './copy.ts'
import { removeDurably, renameDurably, syncDirectory, writeDurably } from './files.ts'
import { initialise } from './initialise.ts'
import { logSettings } from './log/directory.ts'
import { prepareLog } from './log/prepare.ts'
import { acceptedDirectory, checkConfiguration, writeConfiguration } from './postgres-files.ts'
import { tlsSettings } from './tls.ts'
import { dataDirectory, type Identity, identityFile, inspectVolume, planVolume, stagingPrefix } from './volume.ts'

export type PrepareOptions = {
  /** The volume; Postgres's data directory is `pgdata` in it. */
  data: string
  /** The mounted ConfigMap, with `instance.json` and the files that Postgres reads there. */
  configuration: string
  /** The mounted Secret, with `tls.crt`, `tls.key` and `ca.crt`. */
  tls: string
  /** Whether an agent bounds a log on the volume: then Postgres keeps it there. */
  keepsLog?: boolean
}

/** @throws Refusal and errors of the file system (see refusalOf) */
export function prepare(options: PrepareOptions): { initialised: boolean } {
  const wanted = readInstanceConfiguration(options.configuration)
  const { data: root, configuration, keepsLog = false } = options
  const mounts: Mounts = { configuration, settings: tlsSettings(options.tls, process.getuid?.() ?? 0) }
  const volume = inspectVolume(root)
  const steps = planVolume(volume, wanted)

  const keep = steps.find(step => step.do === 'publish')?.staging
  for (const name of volume.staged) if (name !== keep) removeLeftover(join(root, name))
  for (const step of steps) {
    if (step.do === 'initialise') initialiseVolume(root, wanted, mounts)
    else if (step.do === 'publish') publish(root, step.staging)
    else adopt(root, step.identity, wanted)
  }
  const log = keepsLog ? prepareLog(root, wanted.databaseId) : undefined
  if (log !== undefined) mounts.settings = { ...mounts.settings, ...logSettings(log) }
  writeConfiguration(root, join(root, dataDirectory), wanted, mounts)
  checkConfiguration(root, wanted, mounts)
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

/** Whose volume it is, by the first fields of its identity. */
const named = ({ databaseId, incarnation, member }: InstanceConfiguration) => ({
  ...{ databaseId, incarnation },
  ...(member === undefined ? {} : { member }),
})

const writeIdentity = (root: string, identity: Identity): void =>
  writeDurably(join(root, identityFile), `${JSON.stringify(identity)}\n`)

/** `settings`: those that only this pod knows. */
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

const publish = (root: string, staging: string): void => renameDurably(join(root, staging), join(root, dataDirectory))

/**
 * A copy carries the lock file of the server it was copied from, whose process id means nothing here. It is removed
 * before the identity changes, and never again afterwards: at an ordinary start that file is what keeps two servers
 * off one data directory. The files that Postgres accepted of its source's go too, so that it falls back on none of them;
 * and from here on it is closed.
 */
function adopt(root: string, source: Identity, wanted: InstanceConfiguration): void {
  removeDurably(join(root, dataDirectory, 'postmaster.pid'))
  rmSync(join(root, acceptedDirectory), { recursive: true, force: true })
  close(root)
  const { pgVersion } = wanted
  writeIdentity(root, { ...named(wanted), initialisedAt: source.initialisedAt, pgVersion })
}
