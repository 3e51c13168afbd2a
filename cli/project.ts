/**
 * Reads and writes `.espalier`. This file names the database and branch that commands use in its folder and in folders
 * below. The file has only names, so that users can commit it. It has no API address: a cloned repository must not make
 * a command send the user's token to a hostile API.
 */
import { lstat, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { program } from '../server/program.ts'
import { UsageError } from './errors.ts'
import { exactly, optional, type ShapeType, sized } from './shape.ts'

const projectFileName = '.espalier'
/** If `.espalier` is the directory of an embedded installation, the project file is `.espalier/project.json`. */
const nestedName = 'project.json'
const largestBytes = 4096

const name = sized(1, 200)
const project = exactly({ database: name, branch: optional(name) })
type Project = ShapeType<typeof project>

/** Returns the folder and the folders above it, nearest first. */
export function foldersAbove(directory: string): string[] {
  const folders = [resolve(directory)]
  for (;;) {
    const above = dirname(folders.at(-1) ?? '/')
    if (above === folders.at(-1)) return folders
    folders.push(above)
  }
}

/** The advice for an invalid file. `branch checkout --database` replaces the file without reading it. */
const toReplace = `to replace the file, run ${program} branch checkout --database NAME`

/** @throws UsageError if the text is not a project */
export function parseProject(text: string, path: string): Project {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new UsageError(`${path} is not JSON: ${toReplace}`)
  }
  if (project(value)) return value
  throw new UsageError(`${path} must have a database, can have a branch, and must have no other field: ${toReplace}`)
}

/**
 * Returns the path of a folder's project file. `exists` is true only for a small regular file. The current user or root
 * must own the file. If the file is in the directory `.espalier`, the user or root must own the directory instead.
 */
async function fileIn(folder: string): Promise<{ path: string; exists: boolean }> {
  const path = join(folder, projectFileName)
  const found = await lstat(path).catch(() => undefined)
  if (found === undefined) return { path, exists: false }
  const isOwn = found.uid === 0 || found.uid === process.getuid?.()
  if (!found.isDirectory()) return { path, exists: found.isFile() && isOwn && found.size <= largestBytes }
  const nested = join(path, nestedName)
  const inside = await lstat(nested).catch(() => undefined)
  return { path: nested, exists: isOwn && inside?.isFile() === true && inside.size <= largestBytes }
}

type FoundProject = { path: string; project: Project }

/** @throws UsageError if the nearest file cannot be read, or is not a project */
export async function findProject(directory: string): Promise<FoundProject | undefined> {
  for (const folder of foldersAbove(directory)) {
    const { path, exists } = await fileIn(folder)
    if (!exists) continue
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw new UsageError(`cannot read ${path} (${error.code})`)
    })
    return { path, project: parseProject(text, path) }
  }
  return undefined
}

/** Replaces the nearest file, or writes one into the directory. Returns its path. @throws UsageError */
export async function writeProject(directory: string, chosen: Project): Promise<string> {
  const path = (await nearestPath(directory)) ?? (await fileIn(directory)).path
  const temporary = `${path}.${crypto.randomUUID()}`
  try {
    await writeFile(temporary, `${JSON.stringify(chosen)}\n`, { flag: 'wx' })
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw new UsageError(`cannot write ${path} (${error instanceof Error && 'code' in error ? error.code : error})`)
  }
  return path
}

async function nearestPath(directory: string): Promise<string | undefined> {
  for (const folder of foldersAbove(directory)) {
    const { path, exists } = await fileIn(folder)
    if (exists) return path
  }
  return undefined
}

type Choice = { database?: string | undefined; branch?: string | undefined }

/**
 * Returns the database and branch: from the arguments, or else from the project file. If the arguments name a database,
 * the project's branch is not used, because it may belong to another database.
 * @throws UsageError if no database is named
 */
export function chooseTarget({ database, branch }: Choice, found: FoundProject | undefined): Project {
  if (database !== undefined) return { database, branch }
  if (found === undefined)
    throw new UsageError(`name a database, or choose one for this folder: ${program} branch checkout --database NAME`)
  return { database: found.project.database, branch: branch ?? found.project.branch }
}
