/** Base images: Debian's slim image if a registry answers, otherwise an equivalent image built with mmdebstrap. */
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AptAccess, publicMirrors, sourcesOf } from './apt.ts'
import type { Run } from './command.ts'
import type { Install } from './debian.ts'
import { type Engine, inputsLabel } from './engine.ts'
import { ImageError } from './errors.ts'
import type { Suite } from './plan.ts'

const publicBase = (suite: Suite): string => `docker.io/library/debian:${suite}-slim`
const localBase = (suite: Suite): string => `localhost/espalier-base:${suite}`

/** Paths that Debian's slim image also omits. The settings stay in the image, and apply to later installations. */
const excluded = ['doc', 'info', 'linda', 'lintian', 'locale', 'man']
const dpkgOptions = [
  ...excluded.map(name => `path-exclude=/usr/share/${name}/*`),
  'path-include=/usr/share/doc/*/copyright',
  'path-include=/usr/share/locale/locale.alias',
]

/** Files that mmdebstrap copies from its machine. */
const ofTheMachine = [
  'etc/apt/apt.conf.d/99mmdebstrap',
  'etc/apt/sources.list',
  'etc/apt/sources.list.d/*',
  'etc/apt/trusted.gpg.d/*',
  'etc/hostname',
  'etc/resolv.conf',
]

/** `files` are the sources for the build, the sources for the image, and this machine's apt.conf. */
export function mmdebstrapArguments(
  suite: Suite,
  tar: string,
  files: { build: string; keep: string; configuration: string },
): string[] {
  return [
    '--variant=minbase',
    '--include=ca-certificates,debian-archive-keyring',
    ...dpkgOptions.map(option => `--dpkgopt=${option}`),
    `--aptopt=${files.configuration}`,
    `--customize-hook=rm -f ${ofTheMachine.map(path => `"$1"/${path}`).join(' ')}`,
    `--customize-hook=upload ${files.keep} /etc/apt/sources.list.d/debian.sources`,
    suite,
    tar,
    files.build,
  ]
}

/** Depends on how a base is built, not on the newest packages of the day. Only `update` checks the packages. */
const recipeOf = (suite: Suite): string => {
  const names = { build: '', keep: sourcesOf(suite, publicMirrors), configuration: '' }
  return createHash('sha256')
    .update(mmdebstrapArguments(suite, '', names).join('\0'))
    .digest('hex')
}

/** A fixed time (2025-01-01), so that the same packages give the same layer. */
const sourceDate = '1735689600'

type Tools = { engine: Engine; run: Run; install: Install; access: AptAccess }

async function findMmdebstrap(run: Run, install: Install): Promise<void> {
  const isThere = () =>
    run('mmdebstrap', ['--version']).then(
      () => true,
      () => false,
    )
  if (await isThere()) return
  if ((await install(['mmdebstrap', 'debian-archive-keyring'])) && (await isThere())) return
  throw new ImageError('no registry answers, and mmdebstrap is not installed (apt-get install mmdebstrap)')
}

async function makeBase(suite: Suite, { engine, run, install, access }: Tools): Promise<void> {
  await findMmdebstrap(run, install)
  const directory = await mkdtemp(join(tmpdir(), 'espalier-base-'))
  try {
    const file = (name: string) => join(directory, name)
    const files = { build: file('build.sources'), keep: file('keep.sources'), configuration: file('apt.conf') }
    // Accepts this machine's keys, wherever they are stored.
    const anyKey = sourcesOf(suite, access.mirrors).replaceAll(/^Signed-By:.*\n/gm, '')
    await writeFile(files.build, anyKey)
    await writeFile(files.keep, sourcesOf(suite, publicMirrors))
    await writeFile(files.configuration, access.configuration)
    const env = { ...process.env, SOURCE_DATE_EPOCH: sourceDate }
    await run('mmdebstrap', mmdebstrapArguments(suite, file('root.tar'), files), { env })
    await engine.importTar(file('root.tar'), localBase(suite), { [inputsLabel]: recipeOf(suite) })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

export type Base = { name: string; id: string }

/**
 * Returns the base for a suite: the cached base, unless `update` requests the newest.
 * @throws ImageError
 */
export async function findBase(
  suite: Suite,
  tools: Tools & { update: boolean; say: (line: string) => void },
): Promise<Base> {
  const { engine, update, say } = tools
  if (!update) {
    const fromRegistry = await engine.inspect(publicBase(suite))
    if (fromRegistry !== undefined) return { name: publicBase(suite), id: fromRegistry.id }
    const own = await engine.inspect(localBase(suite))
    if (own?.labels[inputsLabel] === recipeOf(suite)) return { name: localBase(suite), id: own.id }
  }
  let name = publicBase(suite)
  if (!(await engine.pull(name))) {
    name = localBase(suite)
    say(`no registry answers: building ${name} from Debian's packages`)
    await makeBase(suite, tools)
  }
  const id = (await engine.inspect(name))?.id
  if (id === undefined) throw new ImageError(`${name} was built but does not exist`)
  return { name, id }
}
