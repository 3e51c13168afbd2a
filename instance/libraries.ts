/** Finds the Postgres libraries of the image. If a configured library is missing, Postgres does not start. */
import { existsSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

/** Where existing packages install libraries and extensions, relative to the programs' directory. */
const libraryDirectories = ['../lib', '../lib/postgresql', '../lib64', '../lib64/postgresql', '../../lib/postgresql']
const shareDirectories = (pgVersion: string) => [
  '../share/extension',
  '../share/postgresql/extension',
  `../share/postgresql/${pgVersion}/extension`,
  `../../../../share/postgresql/${pgVersion}/extension`,
]

/** The directory of the `postgres` found on the path. */
function programDirectory(path: string): string | undefined {
  const found = path.split(delimiter).find(directory => directory !== '' && existsSync(join(directory, 'postgres')))
  return found && dirname(realpathSync(join(found, 'postgres')))
}

/** The libraries that exist, each with the extension that shows its data. */
export function availableLibraries(
  names: readonly string[],
  pgVersion: string,
  path = process.env.PATH ?? '',
): string[] {
  const programs = programDirectory(path)
  if (programs === undefined) return []
  const isThere = (directories: readonly string[], file: string) =>
    directories.some(directory => existsSync(join(programs, directory, file)))
  return names.filter(
    name => isThere(libraryDirectories, `${name}.so`) && isThere(shareDirectories(pgVersion), `${name}.control`),
  )
}
