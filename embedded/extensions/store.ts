/**
 * Extensions that were added to an installation's Postgres. The home directory stores them in
 * `extensions/<major>/{lib,share}`, because npm deletes unknown files in its packages. They are copied from there into
 * the databases' binaries. Postgres searches for an extension's files on demand, so a running database can use them at
 * once.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The directories in which one Postgres searches for extensions. */
type ExtensionDirectories = { lib: string; share: string }

/** Where a home directory stores the extensions for a major version. */
export const extensionsOf = (home: string, major: string): string => join(home, 'extensions', major)

/** @param native the directory `native` of an npm package, or a copy of it */
export function directoriesOf(native: string): ExtensionDirectories {
  return { lib: join(native, 'lib', 'postgresql'), share: join(native, 'share', 'postgresql', 'extension') }
}

/**
 * Copies the extensions of a home directory into binaries. A file appears completely or not at all, because a backend
 * may open it at any moment. Equal files are skipped.
 * @throws the error of the file system if it cannot write
 */
export function copyExtensions(home: string, major: string, native: string): void {
  const extensions = extensionsOf(home, major)
  const directories = directoriesOf(native)
  for (const [name, directory] of Object.entries(directories)) {
    for (const file of filesIn(join(extensions, name)))
      copyAtomically(join(extensions, name, file), join(directory, file))
  }
}

/**
 * Sorted: the scripts are copied before the control file. Once the control file exists, a client can create the
 * extension.
 */
function filesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory).toSorted() : []
}

/** Copies a file completely or not at all; creates its directory if it is missing. */
export function copyAtomically(source: string, target: string): void {
  if (existsSync(target) && readFileSync(source).equals(readFileSync(target))) return
  mkdirSync(dirname(target), { recursive: true })
  const temporary = join(dirname(target), `.${crypto.randomUUID()}`)
  try {
    copyFileSync(source, temporary)
    chmodSync(temporary, target.endsWith('.so') ? 0o755 : 0o644)
    renameSync(temporary, target)
  } finally {
    rmSync(temporary, { force: true })
  }
}
