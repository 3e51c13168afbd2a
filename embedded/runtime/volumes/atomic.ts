/**
 * Writes the files of a Secret or ConfigMap volume so that a reader sees either all old or all new files. The files are
 * in a separate directory. The link `..data` points to this directory, and one rename replaces the link. The names at
 * the top are links through `..data`, and never change while the key exists. The directories do not belong to the
 * workload: it can read its files but not change them.
 */
import {
  chmodSync,
  chownSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { makePassage, type Owner } from '../directories.ts'
import { errorCode } from '../errors.ts'
import type { ProjectedFiles } from '../pods/projection.ts'

const current = '..data'

export const sameFiles = (a: ProjectedFiles, b: ProjectedFiles): boolean =>
  a.size === b.size &&
  [...a].every(([path, file]) => {
    const other = b.get(path)
    return other !== undefined && other.mode === file.mode && other.content.equals(file.content)
  })

function linkTo(directory: string): string | undefined {
  try {
    return readlinkSync(join(directory, current))
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Replaces the content of `directory` with exactly `files`, which belong to `owner`. */
export function writeAtomically(directory: string, files: ProjectedFiles, owner: Owner | undefined): void {
  makePassage({ owner }, directory)
  const before = linkTo(directory)
  const fresh = `..${crypto.randomUUID()}`
  const target = join(directory, fresh)
  makePassage({ owner }, target)
  for (const [path, { content, mode }] of files) {
    const file = join(target, path)
    for (let parent = dirname(file); parent !== target; parent = dirname(parent)) makePassage({ owner }, parent)
    writeFileSync(file, content, { mode: 0o600, flag: 'wx' })
    chmodSync(file, mode)
    if (owner !== undefined) chownSync(file, owner.uid, owner.gid)
  }
  const temporary = join(directory, `${fresh}.link`)
  symlinkSync(fresh, temporary)
  renameSync(temporary, join(directory, current))
  linkNames(directory, new Set([...files.keys()].map(path => path.split('/', 1)[0] ?? path)))
  if (before !== undefined) rmSync(join(directory, before), { recursive: true, force: true })
}

function linkNames(directory: string, names: Set<string>): void {
  const present = new Set(readdirSync(directory).filter(name => !name.startsWith('..')))
  for (const name of present) if (!names.has(name)) rmSync(join(directory, name), { force: true })
  for (const name of names) if (!present.has(name)) symlinkSync(join(current, name), join(directory, name))
}
