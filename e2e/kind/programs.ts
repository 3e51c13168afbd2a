/**
 * The programs of a self-made cluster, built from Go modules and cached by their inputs. With Go's build cache, a
 * second build takes seconds, even if this cache is empty.
 */
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { logged, type Run } from '../../images/command.ts'
import { KindError } from './errors.ts'
import { containerd, linkerFlags, type ProgramName, sharedPrograms } from './versions.ts'

const source = join(import.meta.dirname, 'build')
const files = ['go.mod', 'go.sum', 'coredns/main.go', 'runc/main.go', 'pause/main.go']

export type Programs = { directory: string; path(name: ProgramName): string }

/** Changes with every version, flag and line of a program's sources. */
async function digestOfPrograms(): Promise<string> {
  const hash = createHash('sha256')
  hash.update(JSON.stringify([sharedPrograms, containerd, linkerFlags, process.arch]))
  for (const file of files) hash.update(await readFile(join(source, file)))
  return hash.digest('hex').slice(0, 16)
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/** Flags for static binaries that contain no paths of this machine. */
const flags = ['-trimpath', '-ldflags', `-s -w ${linkerFlags}`]
const goEnvironment = (extra: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...process.env,
  CGO_ENABLED: '0',
  GOFLAGS: '-buildvcs=false -mod=mod',
  GOTOOLCHAIN: 'local',
  ...extra,
})

const downloaded = z.object({ Dir: z.string() })

/** Copies a module's source into a writable directory. */
async function copyOfModule(run: Run, module: string, directory: string): Promise<string> {
  const text = await run('go', ['mod', 'download', '-json', module], { cwd: tmpdir(), env: goEnvironment() })
  const copy = join(directory, 'module')
  await cp(downloaded.parse(JSON.parse(text)).Dir, copy, { recursive: true })
  await run('chmod', ['-R', 'u+w', copy])
  return copy
}

/** `go build`'s name for a package's program: the last part of its path that is not a major version. */
const outputOf = (target: string): string => basename(target.replace(/\/v[0-9]+$/, ''))

/** Interval between two progress lines. */
const progressMs = 30_000

/** A limit of hours: on a shared machine, a build has taken more than an hour. */
const buildMs = 4 * 60 * 60_000

/**
 * Builds all programs in one call, so that Go links one program while it compiles the next. Go's cached packages are
 * not counted, so the remaining time is an upper bound.
 */
async function buildShared(
  run: Run,
  programs: readonly { target: string }[],
  directory: string,
  say: (line: string) => void,
): Promise<void> {
  const env = goEnvironment({ GOFLAGS: '-buildvcs=false -mod=readonly' })
  const targets = programs.map(({ target }) => target)
  const listed = await run('go', ['list', '-deps', ...targets], { cwd: source, env })
  const total = listed.trim().split('\n').length
  const started = performance.now()
  let built = 0
  const progress = setInterval(() => {
    const minutes = Math.ceil(((performance.now() - started) / 60_000) * (total / Math.max(built, 1) - 1))
    const remainingTime = built > total / 20 ? `, at most ${minutes} min left` : ''
    say(`built ${built} of at most ${total} packages${remainingTime}`)
  }, progressMs)
  try {
    await run('go', ['build', '-v', ...flags, '-o', `${directory}/`, ...targets], {
      cwd: source,
      env,
      timeoutMs: buildMs,
      onError: text => {
        built += text.split('\n').length - 1
      },
    })
  } finally {
    clearInterval(progress)
  }
}

/** The tools for a cluster of a stock node image. */
const tools = new Set<string>(['kind', 'kubectl', 'helm'])

/**
 * Builds missing programs: all, or only the tools.
 * @throws KindError if Go is missing; ImageError with the end of Go's output
 */
export async function buildPrograms(
  cache: string,
  log: string,
  say: (line: string) => void,
  scope: 'tools' | 'all',
): Promise<Programs> {
  const run = logged(log)
  const directory = join(cache, 'programs', await digestOfPrograms())
  const path = (name: string) => join(directory, name)
  const isMissing = async (name: string) => (scope === 'all' || tools.has(name)) && !(await exists(path(name)))
  await mkdir(directory, { recursive: true })
  const scratch = await mkdtemp(join(directory, '.new-'))
  const finish = (name: string, built = name) => rename(join(scratch, built), path(name))
  const requireGo = async () => {
    await run('go', ['version']).catch(() => {
      throw new KindError('Go is not installed, and without a registry Kubernetes has to be built: install Go 1.26')
    })
  }

  try {
    const shared = []
    for (const [name, target] of Object.entries(sharedPrograms))
      if (await isMissing(name)) shared.push({ name, target })
    if (shared.length > 0) {
      await requireGo()
      say(`building ${shared.map(({ name }) => name).join(', ')}`)
      await buildShared(run, shared, scratch, say)
      for (const { name, target } of shared) await finish(name, outputOf(target))
    }
    const absent = []
    for (const name of containerd.programs) if (await isMissing(name)) absent.push(name)
    if (absent.length > 0) {
      await requireGo()
      const module = await copyOfModule(run, containerd.module, scratch)
      for (const name of absent) {
        say(`building ${name}`)
        await run('go', ['build', ...flags, '-o', join(scratch, name), `./cmd/${name}`], {
          cwd: module,
          env: goEnvironment(),
        })
        await finish(name)
      }
    }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return { directory, path }
}
