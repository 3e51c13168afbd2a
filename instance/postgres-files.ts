/**
 * The configuration for Postgres's start. The operator's files are in the mounted directory, which Kubernetes updates
 * under a running pod. Postgres reads them there, so a change needs a reload but no restart. If Postgres would refuse
 * to start with them, it starts with the last files that it accepted, and reports this in `espalier.refused`.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type ConfigurationFile, configurationFiles, type InstanceConfiguration } from './configuration.ts'
import { closure } from './copy.ts'
import { readIfPresent, writeDurably } from './files.ts'
import { availableLibraries } from './libraries.ts'
import { quoteSetting, renderSettings } from './settings.ts'
import { dataDirectory } from './volume.ts'

/** In the volume's root: the last mounted files that Postgres accepted. */
export const acceptedDirectory = 'espalier-configuration'

/** The check only reads files. If this takes longer, the disk has other problems. */
const checkTimeoutMs = 60_000

/** The directory of mounted files that Postgres can read in place; undefined if an older operator wrote them. */
function mountedFiles(configuration: string): string | undefined {
  return configurationFiles.every(name => existsSync(join(configuration, name))) ? configuration : undefined
}

/** Settings that only this pod knows. They are written after the files, so that they override them. */
function ownSettings({ preload = [], pgVersion }: InstanceConfiguration, settings: Record<string, string>) {
  const libraries = availableLibraries(preload, pgVersion)
  return { ...(libraries.length > 0 ? { shared_preload_libraries: libraries.join(',') } : {}), ...settings }
}

/**
 * The data directory's postgresql.conf, which includes files of another directory. The settings that keep a copy closed
 * override all others.
 */
function including(root: string, directory: string, settings: Record<string, string>): string {
  const at = (name: ConfigurationFile) => join(directory, name)
  const closed = closure(root)
  return [
    '# Written before every start; changes made here are lost.',
    `include ${quoteSetting(at('postgresql.conf'))}`,
    renderSettings({
      hba_file: at('pg_hba.conf'),
      ident_file: at('pg_ident.conf'),
      ...settings,
      ...closed?.settings,
    }),
    ...(closed === undefined ? [] : [closed.include]),
  ].join('\n')
}

/** The error of Postgres about its configuration; undefined if there is none. */
function objection(directory: string): string | undefined {
  const result = spawnSync('postgres', ['-D', directory, '-C', 'data_directory'], {
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: checkTimeoutMs,
    killSignal: 'SIGKILL',
  })
  if (result.status === 0) return undefined
  const lines = (result.error?.message ?? result.stderr).trim().split('\n')
  const line = lines.find(text => /(ERROR|LOG|FATAL): {2}/.test(text)) ?? lines[0] ?? ''
  return line.replace(/^.*?(?:ERROR|LOG|FATAL): {2}/, '').slice(0, 500) || 'it cannot be read'
}

/** Saves the accepted files. A full disk must not prevent Postgres from starting, so a failure is ignored. */
function keepAccepted(root: string, mounted: string): void {
  const accepted = join(root, acceptedDirectory)
  try {
    mkdirSync(accepted, { recursive: true, mode: 0o700 })
    for (const name of configurationFiles) writeDurably(join(accepted, name), readFileSync(join(mounted, name), 'utf8'))
  } catch {
    // If this fails, the files that were saved earlier stay. Without earlier files, no files are saved.
  }
}

/** Copies the operator's files into the data directory, as older images and operators do. */
function copyFiles(directory: string, { files }: InstanceConfiguration, settings: Record<string, string>): void {
  for (const name of configurationFiles) {
    const text =
      name === 'postgresql.conf' ? `${files[name]}\n# Of this pod.\n${renderSettings(settings)}` : files[name]
    writeDurably(join(directory, name), text)
  }
}

/**
 * Writes the files that Postgres reads in a data directory of the volume `root`. Empties postgresql.auto.conf, which
 * removes any ALTER SYSTEM, even in a copy. (No user may run ALTER SYSTEM, and from 17 on it is also disabled.)
 */
export function writeConfiguration(
  root: string,
  directory: string,
  wanted: InstanceConfiguration,
  { configuration, settings: ofPod }: { configuration: string; settings: Record<string, string> },
): void {
  // If Kubernetes has set the volume's group, everything has g+rwxs. Postgres starts only with 0700 or 0750.
  if ((statSync(directory).mode & 0o7777) !== 0o700) chmodSync(directory, 0o700)
  const settings = ownSettings(wanted, ofPod)
  const mounted = mountedFiles(configuration)
  if (mounted === undefined) copyFiles(directory, wanted, settings)
  else writeDurably(join(directory, 'postgresql.conf'), including(root, mounted, settings))
  writeDurably(join(directory, 'postgresql.auto.conf'), '')
}

/** Makes Postgres check the mounted files. If it would not start with them, uses the last accepted files. */
export function checkConfiguration(
  root: string,
  wanted: InstanceConfiguration,
  { configuration, settings: ofPod }: { configuration: string; settings: Record<string, string> },
): void {
  const mounted = mountedFiles(configuration)
  if (mounted === undefined) return
  const directory = join(root, dataDirectory)
  const refused = objection(directory)
  if (refused === undefined) {
    keepAccepted(root, mounted)
    return
  }
  const accepted = join(root, acceptedDirectory)
  if (configurationFiles.some(name => readIfPresent(join(accepted, name)) === undefined)) return
  const settings = { ...ownSettings(wanted, ofPod), 'espalier.refused': refused }
  writeDurably(join(directory, 'postgresql.conf'), including(root, accepted, settings))
  // The last accepted files fail too, so the mounted files are used. Postgres reports the error at its start.
  if (objection(directory) !== undefined)
    writeDurably(join(directory, 'postgresql.conf'), including(root, mounted, ownSettings(wanted, ofPod)))
}
