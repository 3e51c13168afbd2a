/**
 * The configuration that Postgres starts with. The operator's files stand in the mounted directory, which Kubernetes changes
 * under a running pod, and Postgres reads them there: a change takes a reload, no restart. What Postgres would not start
 * with is refused before it starts; it starts with the files that it accepted last, and says so in `espalier.refused`.
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

/** In the volume's root: the mounted files as Postgres last accepted them. */
export const acceptedDirectory = 'espalier-configuration'

/** It only reads its files; a disk that takes longer has other troubles. */
const checkTimeoutMs = 60_000

/** Where files are mounted that Postgres can read in place; undefined where an operator before that wrote them. */
function mountedFiles(configuration: string): string | undefined {
  return configurationFiles.every(name => existsSync(join(configuration, name))) ? configuration : undefined
}

/** What only this pod knows: comes after the files, so that it wins over them. */
function ownSettings({ preload = [], pgVersion }: InstanceConfiguration, settings: Record<string, string>) {
  const libraries = availableLibraries(preload, pgVersion)
  return { ...(libraries.length > 0 ? { shared_preload_libraries: libraries.join(',') } : {}), ...settings }
}

/** postgresql.conf of the data directory, for files that stand in another. What keeps a copy closed wins over all of them. */
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

/** What Postgres has against its configuration, in its own words; undefined for nothing. */
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

/** Keeps what Postgres accepted. A disk without room for it must not keep Postgres from starting. */
function keepAccepted(root: string, mounted: string): void {
  const accepted = join(root, acceptedDirectory)
  try {
    mkdirSync(accepted, { recursive: true, mode: 0o700 })
    for (const name of configurationFiles) writeDurably(join(accepted, name), readFileSync(join(mounted, name), 'utf8'))
  } catch {
    // What was accepted before stays, or nothing is kept.
  }
}

/** What the operator wrote and the data directory has copies of: how images and operators before this one do it. */
function copyFiles(directory: string, { files }: InstanceConfiguration, settings: Record<string, string>): void {
  for (const name of configurationFiles) {
    const text =
      name === 'postgresql.conf' ? `${files[name]}\n# Of this pod.\n${renderSettings(settings)}` : files[name]
    writeDurably(join(directory, name), text)
  }
}

/**
 * Writes what Postgres reads in a data directory of the volume `root`, and empties postgresql.auto.conf: whatever ALTER SYSTEM left there, even in a copy, ends
 * here. (No user may run it, and from 17 on it is switched off too.)
 */
export function writeConfiguration(
  root: string,
  directory: string,
  wanted: InstanceConfiguration,
  { configuration, settings: ofPod }: { configuration: string; settings: Record<string, string> },
): void {
  // A volume that Kubernetes gave to a group has g+rwxs on everything; Postgres starts on 0700 or 0750 only.
  if ((statSync(directory).mode & 0o7777) !== 0o700) chmodSync(directory, 0o700)
  const settings = ownSettings(wanted, ofPod)
  const mounted = mountedFiles(configuration)
  if (mounted === undefined) copyFiles(directory, wanted, settings)
  else writeDurably(join(directory, 'postgresql.conf'), including(root, mounted, settings))
  writeDurably(join(directory, 'postgresql.auto.conf'), '')
}

/** Has Postgres check the files that are mounted, and go back to those it accepted last where it would not start. */
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
  // Nothing was gained, and the server says what is wrong.
  if (objection(directory) !== undefined)
    writeDurably(join(directory, 'postgresql.conf'), including(root, mounted, ownSettings(wanted, ofPod)))
}
