/**
 * Copies of binaries and programs in the home directory, for users that cannot read the originals. One rename publishes
 * a copy, so it exists completely or not at all.
 */
import { chmodSync, constants, mkdirSync, readdirSync, statSync } from 'node:fs'
import { access, chmod, copyFile, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeOwned, type Owner } from '../directories.ts'

export type HomeCopies = {
  /** The directory of the copies. */
  directory: string
  /** Returns the directory `name` of the copies. If it is missing, calls `fill` to create it. */
  copyOnce(name: string, fill: (directory: string) => Promise<void>): Promise<string>
  /** The path of a copy of this process's Node. */
  node(): Promise<string>
  /** Node's compile cache for workloads. Without a cache, compiling takes most of the start time. */
  compiled(): Promise<string>
}

export function createHomeCopies({ home, owner }: { home: string; owner?: Owner | undefined }): HomeCopies {
  const directory = join(home, 'binaries')

  async function makeDirectory(): Promise<void> {
    mkdirSync(directory, { recursive: true, mode: 0o755 })
    await chmod(directory, 0o755) // sets the mode whatever the umask is
  }

  async function copyOnce(name: string, fill: (directory: string) => Promise<void>): Promise<string> {
    const copy = join(directory, name)
    if (await exists(copy)) return copy
    await makeDirectory()
    const temporary = join(directory, `.${name}.${crypto.randomUUID()}`)
    try {
      await fill(temporary)
      openToAll(temporary)
      await rename(temporary, copy)
    } catch (error) {
      await rm(temporary, { recursive: true, force: true })
      if (!(await exists(copy))) throw error
    }
    return copy
  }

  return {
    directory,
    copyOnce,
    node: async () => {
      const copy = await copyOnce(`node-${process.version}`, async target => {
        await mkdir(target)
        await copyFile(process.execPath, join(target, 'node'), constants.COPYFILE_FICLONE)
      })
      return join(copy, 'node')
    },
    compiled: async () => {
      const cache = join(directory, 'compiled')
      await makeDirectory()
      makeOwned({ owner }, cache)
      return cache
    },
  }
}

export async function exists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch {
    return false
  }
}

/** Makes a tree readable for all users. A file becomes executable for all users if its owner can execute it. */
function openToAll(directory: string): void {
  chmodSync(directory, 0o755)
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) openToAll(path)
    else if (entry.isFile()) chmodSync(path, (statSync(path).mode & 0o100) === 0 ? 0o644 : 0o755)
  }
}
