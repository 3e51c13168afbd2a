/** The packages that `espalier` loads, at the versions of the lock file, and Node itself. */
import { createHash } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Run } from './command.ts'
import { ImageError } from './errors.ts'

const inputs = ['package.json', 'package-lock.json', '.npmrc']
const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** A node_modules directory with the production packages. It is created once for each lock file. */
export async function productionModules(
  root: string,
  cache: string,
  run: Run,
  say: (line: string) => void,
): Promise<string> {
  const hash = createHash('sha256')
  for (const name of inputs) hash.update(await readFile(join(root, name)))
  const directory = join(cache, 'modules', hash.digest('hex').slice(0, 16))
  const modules = join(directory, 'node_modules')
  if (await exists(modules)) return modules

  say('installing the packages that Espalier runs with')
  await mkdir(dirname(directory), { recursive: true })
  const unfinished = await mkdtemp(`${directory}-`)
  try {
    for (const name of inputs) await copyFile(join(root, name), join(unfinished, name))
    const flags = ['--omit=dev', '--omit=optional', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
    await run('npm', ['ci', ...flags], { cwd: unfinished })
    // Another build may have created the directory first.
    await rename(unfinished, directory).catch(async error => {
      if (!(await exists(modules))) throw error
    })
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  return modules
}

/** The directory of the package with Node for this machine's processor. */
export function nodePackage(root: string, arch: string = process.arch): string {
  try {
    return dirname(createRequire(join(root, 'package.json')).resolve(`node-linux-${arch}/package.json`))
  } catch {
    throw new ImageError(`the package node-linux-${arch} is not installed: images are built on Linux, after npm ci`)
  }
}
