/**
 * Extensions that an installation has beside those that come with its Postgres. They are kept in the home, as
 * `extensions/<major>/{lib,share}`, since npm throws away what it does not know in its packages, and are copied from there
 * into the binaries that databases run with. Postgres looks for an extension's files when it is asked for it, so a
 * database that serves has them at once.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The directories of one Postgres in which it looks for extensions. */
type ExtensionDirectories = { lib: string; share: string }

/** Where the extensions of a home are kept for a major version. */
export const extensionsOf = (home: string, major: string): string => join(home, 'extensions', major)

/** @param native the directory `native` of an npm package, or a copy of it */
export function directoriesOf(native: string): ExtensionDirectories {
  return { lib: join(native, 'lib', 'postgresql'), share: join(native, 'share', 'postgresql', 'extension') }
}

/**
 * Copies the extensions of a home into binaries. A file appears whole or not at all: a backend may open it at any moment. What is the same is left alone.
 * @throws the error of the file system where it cannot write
 */
export function copyExtensions(home: string, major: string, native: string): void {
  const kept = extensionsOf(home, major)
  const directories = directoriesOf(native)
  for (const [name, directory] of Object.entries(directories)) {
    for (const file of filesIn(join(kept, name))) copyWhole(join(kept, name, file), join(directory, file))
  }
}

/** Sorted, so that a control file comes after its scripts: as soon as it is there, the extension can be asked for. */
function filesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory).toSorted() : []
}

/** Copies a file whole or not at all; its directory is made where it is not there. */
export function copyWhole(source: string, target: string): void {
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
