/** Which of Postgres's libraries the image has: one that is named and not there would keep Postgres from starting. */
// @ts-nocheck

import { existsSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

/** Where the packages that there are put libraries and extensions, from the directory of the programs. */
const libraryDirectories = ['../lib', '../lib/postgresql', '../lib64', '../lib64/postgresql', '../../lib/postgresql']
const shareDirectories = (pgVersion: string) => [
  '../share/extension',
  '../share/postgresql/extension',
  `../share/postgresql/${pgVersion}/extension`,
  `../../../../share/postgresql/${pgVersion}/extension`,
]

/** The directory of the `postgres` that the path leads to. */
function programDirectory(path: string): string | undefined {
  const found = path.split(delimiter).find(directory => directory !== '' && existsSync(join(directory, 'postgres')))
  return found && dirname(realpathSync(join(found, 'postgres')))
}

/** Those of the libraries that are there, each with the extension that shows what it gathers. */
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
