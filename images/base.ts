/**
 * What images stand on: Debian's own slim image where a registry answers, the same made with mmdebstrap where none does.
 */
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

/** What Debian's slim image leaves out too; the settings stay, and hold for what is installed later. */
const left = ['doc', 'info', 'linda', 'lintian', 'locale', 'man']
const dpkgOptions = [
  ...left.map(name => `path-exclude=/usr/share/${name}/*`),
  'path-include=/usr/share/doc/*/copyright',
  'path-include=/usr/share/locale/locale.alias',
]

/** What mmdebstrap brings along of the machine it runs on. */
const ofTheMachine = [
  'etc/apt/apt.conf.d/99mmdebstrap',
  'etc/apt/sources.list',
  'etc/apt/sources.list.d/*',
  'etc/apt/trusted.gpg.d/*',
  'etc/hostname',
  'etc/resolv.conf',
]

/** `files` hold the sources to build from, those to leave behind, and this machine's apt.conf. */
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

/** Of how a base is made, not of what was newest that day: that is for `update` to ask. */
const recipeOf = (suite: Suite): string => {
  const names = { build: '', keep: sourcesOf(suite, publicMirrors), configuration: '' }
  return createHash('sha256')
    .update(mmdebstrapArguments(suite, '', names).join('\0'))
    .digest('hex')
}

/** Any fixed moment does (2025-01-01): the same packages then give the same layer. */
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
    // The keys are this machine's, wherever they stand here.
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
 * The base for a suite, from what is here already unless `update` asks for the newest.
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
    say(`no registry answers: making ${name} from Debian's packages`)
    await makeBase(suite, tools)
  }
  const id = (await engine.inspect(name))?.id
  if (id === undefined) throw new ImageError(`${name} was made and is not there`)
  return { name, id }
}
