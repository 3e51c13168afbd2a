/** Copies of binaries and programs in the home, for users that cannot read the originals. A copy appears by one rename, whole or not at all. */
import { chmodSync, constants, mkdirSync, readdirSync, statSync } from 'node:fs'
import { access, chmod, copyFile, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeOwned, type Owner } from '../directories.ts'

export type HomeCopies = {
  /** Where the copies are. */
  directory: string
  /** Returns the directory `name` among the copies. `fill` makes it unless it is there already. */
  copyOnce(name: string, fill: (directory: string) => Promise<void>): Promise<string>
  /** The path of a copy of this process's Node. */
  node(): Promise<string>
  /** The directory where workloads keep what Node has compiled: most of the time that a start takes. */
  compiled(): Promise<string>
}

export function createHomeCopies({ home, owner }: { home: string; owner?: Owner | undefined }): HomeCopies {
  const directory = join(home, 'binaries')

  async function makeDirectory(): Promise<void> {
    mkdirSync(directory, { recursive: true, mode: 0o755 })
    await chmod(directory, 0o755) // whatever the umask
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

/** Lets every user read a tree, and run in it what its owner may run. */
function openToAll(directory: string): void {
  chmodSync(directory, 0o755)
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) openToAll(path)
    else if (entry.isFile()) chmodSync(path, (statSync(path).mode & 0o100) === 0 ? 0o644 : 0o755)
  }
}
