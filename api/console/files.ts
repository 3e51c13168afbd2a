/**
 * The files of a built console. The API serves only listed names: regular files of the directory. So no path of a
 * request and no symlink leads out of the directory. The list is read again while the console is in use, because `make
 * console` replaces files.
 */
import { hash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The build directory of `console/`. Images have it at the same path. */
const builtConsole = fileURLToPath(new URL('../../console/dist', import.meta.url))

/** The directory of the console's files, which may not exist. */
export const consoleDirectory = ({ ESPALIER_CONSOLE_DIR: directory }: NodeJS.ProcessEnv): string =>
  directory === undefined || directory === '' ? builtConsole : directory

export type ConsoleFiles = {
  /** All regular files, including compressed copies. */
  names: ReadonlySet<string>
  /** The entity tags of files whose content may change without a new name. */
  tags: ReadonlyMap<string, string>
}

/** The names of files below this path contain a hash of their content. */
export const hashedNames = 'assets/'
export const indexFile = 'index.html'

const freshMs = 2_000

export const isCompressedCopy = (name: string): boolean => /\.(br|gz)$/.test(name)

/**
 * The tag is a hash of the content, because files of an image have equal times. It is weak, because compressed copies
 * have the same tag.
 */
async function tagOf(path: string): Promise<string> {
  return `W/"${hash('sha256', await readFile(path), 'base64url').slice(0, 27)}"`
}

async function readFiles(directory: string): Promise<ConsoleFiles | undefined> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true })
  const files = entries.filter(entry => entry.isFile())
  const names = new Set(files.map(({ parentPath, name }) => relative(directory, join(parentPath, name))))
  if (!names.has(indexFile)) return undefined
  const tags = new Map<string, string>()
  for (const name of names)
    if (!name.startsWith(hashedNames) && !isCompressedCopy(name)) tags.set(name, await tagOf(join(directory, name)))
  return { names, tags }
}

/** Reads the list at most every two seconds. The list is undefined if no console was built. */
export function createConsoleFiles(
  directory: string | undefined,
  now: () => number,
): () => Promise<ConsoleFiles | undefined> {
  let last: { at: number; files: Promise<ConsoleFiles | undefined> } | undefined
  return async () => {
    if (directory === undefined) return undefined
    if (last === undefined || now() - last.at >= freshMs)
      // A concurrent build may delete a file between listing and reading.
      last = { at: now(), files: readFiles(directory).catch(() => undefined) }
    return last.files
  }
}
