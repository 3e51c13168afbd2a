/**
 * The image `espalier`: this checkout's command, which runs the services of databases. If workloads run as another
 * user, this user may not be able to read the checkout. Then the services' files are copied, once per content, to a
 * place that this user can read.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { chmod, cp, mkdir, rename, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { z } from 'zod'
import type { Owner } from '../directories.ts'
import { RuntimeError } from '../errors.ts'
import { createHomeCopies, type HomeCopies } from './copies.ts'
import type { ImageResolver } from './resolver.ts'

/** The image of the services of databases. */
export const servicesImage = 'espalier'

const checkout = fileURLToPath(new URL('../../../', import.meta.url))
const namesModule = fileURLToPath(new URL('./service-names.mjs', import.meta.url))

/** The source folders of the services. */
export const serviceFolders = ['bin', 'server', 'services', 'values', 'wire']
/** The packages that these folders import. Their package.json names their dependencies. */
export const servicePackages = [
  'ajv',
  'csv-parse',
  'gpt-tokenizer',
  'jose',
  'libpg-query',
  'lru-cache',
  'marked',
  'openid-client',
  'parse5',
  'pg',
  'pino',
  'prom-client',
  'yaml',
  'zod',
]

type Options = {
  /** The directory of the copies. */
  home: string
  owner?: Owner | undefined
  /** The file with the names of Services (network/names.ts). The command is in the same directory. */
  names: string
}

/** Resolves the image `espalier`, and passes other images on to `others`. */
export function withServicesImage(others: ImageResolver, options: Options): ImageResolver {
  let made: Promise<string> | undefined
  const copies = createHomeCopies(options)
  return async (image, volumes) => {
    if (image !== servicesImage) return await others(image, volumes)
    made ??= makeCommand(copies, options)
    try {
      return { path: [await made], commands: {}, env: { NODE_COMPILE_CACHE: await copies.compiled() } }
    } catch (error) {
      made = undefined
      const why = error instanceof Error ? error.message : String(error)
      throw new RuntimeError('ImageNotFound', `the services cannot be copied: ${why}`, { cause: error })
    }
  }
}

/** Returns the directory of the command `espalier`. */
async function makeCommand(copies: HomeCopies, { owner, names }: Options): Promise<string> {
  const root = owner === undefined ? checkout : await copyServices(copies)
  const node = owner === undefined ? process.execPath : await copies.node()
  const preload = pathToFileURL(owner === undefined ? namesModule : join(root, 'service-names.mjs'))
  preload.searchParams.set('names', names)
  const script = `#!/bin/sh\nexec ${quoted(node)} --import ${quoted(preload.href)} ${quoted(join(root, 'bin/espalier.mjs'))} "$@"\n`
  const directory = join(dirname(names), 'command')
  await mkdir(directory, { recursive: true, mode: 0o755 })
  const file = join(directory, 'espalier')
  await writeFile(`${file}.new`, script)
  await chmod(`${file}.new`, 0o755)
  await rename(`${file}.new`, file)
  return directory
}

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

const hashOf = (parts: Iterable<string | Buffer>): string => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part).update('\0')
  return hash.digest('hex').slice(0, 16)
}

const isForTests = (name: string): boolean => /\.test\.ts$|(^|\/)testing(\/|$)/.test(name)

async function copyServices(copies: HomeCopies): Promise<string> {
  const sources = serviceFolders.flatMap(folder =>
    readdirSync(join(checkout, folder), { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name).slice(checkout.length)),
  )
  const files = [...sources.filter(name => !isForTests(name)).sort(), 'package.json']
  const packages = packagesOf(servicePackages)
  const contents = [...files, namesModule.slice(checkout.length)].flatMap(name => [
    name,
    readFileSync(join(checkout, name)),
  ])
  const versions = packages.map(({ name, version }) => `${name}@${version}`)
  return await copies.copyOnce(`services-${hashOf([...contents, ...versions])}`, async target => {
    for (const name of files) {
      await mkdir(dirname(join(target, name)), { recursive: true })
      await cp(join(checkout, name), join(target, name))
    }
    await cp(namesModule, join(target, 'service-names.mjs'))
    for (const { directory, at } of packages) await cp(directory, join(target, at), { recursive: true })
  })
}

const packageFile = z.looseObject({
  name: z.string(),
  version: z.string(),
  dependencies: z.record(z.string(), z.string()).default({}),
})

/** A package, and the path relative to the copy's root where npm has put it. */
type Package = { name: string; version: string; directory: string; at: string }

/** The packages with these names and all their dependencies. */
function packagesOf(names: readonly string[]): Package[] {
  const found = new Map<string, Package>()
  const add = (name: string, from: string): void => {
    const directory = directoryOf(name, from)
    if (found.has(directory)) return
    const { version, dependencies } = packageFile.parse(
      JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')),
    )
    const at = directory.slice(directory.indexOf('/node_modules/') + 1)
    found.set(directory, { name, version, directory, at })
    for (const dependency of Object.keys(dependencies)) add(dependency, join(directory, 'package.json'))
  }
  for (const name of names) add(name, import.meta.filename)
  return [...found.values()]
}

/** @throws Error if the package is not installed */
function directoryOf(name: string, from: string): string {
  for (const modules of createRequire(from).resolve.paths(name) ?? []) {
    const directory = join(modules, name)
    try {
      readFileSync(join(directory, 'package.json'))
      return directory
    } catch {
      // The package may be in a parent directory.
    }
  }
  throw new Error(`the package ${name} is not installed`)
}
