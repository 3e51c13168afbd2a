/** Builds and stores images: Docker with BuildKit, or buildah. */
import { chmod, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { Run } from './command.ts'
import type { Install } from './debian.ts'
import { ImageError } from './errors.ts'

type BuildRequest = {
  name: string
  dockerfile: string
  context: string
  arguments: Record<string, string>
  labels: Record<string, string>
  /** Files for build steps, by id. They are not stored in the image. */
  secrets: Record<string, string>
  /** Whether layers of earlier builds may be used. */
  cache: boolean
}

/** Image metadata (Docker image specification, "Image JSON fields"). */
export type Image = {
  id: string
  labels: Record<string, string>
  user: string
  /** Each as `NAME=value`. */
  environment: string[]
  entrypoint: string[]
  command: string[]
  stopSignal: string | undefined
}

export type Engine = {
  name: 'docker' | 'buildah'
  inspect(name: string): Promise<Image | undefined>
  /** Whether the image is available. */
  pull(name: string): Promise<boolean>
  importTar(tar: string, name: string, labels: Record<string, string>): Promise<void>
  build(request: BuildRequest): Promise<void>
  /** Removes an image without a name. An image that is in use stays. */
  discard(id: string): Promise<void>
  /** Unpacks the image's files into a writable directory. `release` removes the directory. */
  unpack(name: string): Promise<{ directory: string; release: () => Promise<void> }>
  /** Writes an archive for `docker load` and `kind load image-archive`, completely or not at all. */
  save(name: string, archive: string): Promise<void>
}

const pullTimeoutMs = 120_000

const pairs = (flag: string, values: Record<string, string>): string[] =>
  Object.entries(values).flatMap(([key, value]) => [flag, `${key}=${value}`])

/** Flags that both engines share. */
export const buildFlags = (request: BuildRequest): string[] => [
  ...(request.cache ? [] : ['--no-cache']),
  ...pairs('--build-arg', request.arguments),
  ...pairs('--label', request.labels),
  ...Object.entries(request.secrets).flatMap(([id, file]) => ['--secret', `id=${id},src=${file}`]),
  '--tag',
  request.name,
  '--file',
  request.dockerfile,
  request.context,
]

/** Enough for installing packages, and below the default limit of every machine. */
const ulimit = 4096

/**
 * Limits as flags of buildah, never above this process's own limits (`limits` is the text of its /proc/self/limits).
 * Without flags, some releases raise them, which root in a container may not do.
 */
export function ulimitFlags(limits: string): string[] {
  const flag = (name: string, title: string): string[] => {
    const hard = new RegExp(`^${title} +\\S+ +(\\d+) `, 'm').exec(limits)?.[1]
    const limit = Math.min(ulimit, Number(hard ?? ulimit))
    return ['--ulimit', `${name}=${limit}:${limit}`]
  }
  return [...flag('nofile', 'Max open files'), ...flag('nproc', 'Max processes')]
}

const succeeds = (promise: Promise<unknown>): Promise<boolean> =>
  promise.then(
    () => true,
    () => false,
  )

async function writeComplete(archive: string, write: (path: string) => Promise<unknown>): Promise<void> {
  const unfinished = `${archive}.${process.pid}`
  try {
    await write(unfinished)
    await rename(unfinished, archive)
  } finally {
    await rm(unfinished, { force: true })
  }
}

/** A label on every Espalier image: the digest of its inputs. */
export const inputsLabel = 'dev.espalier.image.inputs'

const words = z.array(z.string()).nullish()
const imageConfiguration = z.object({
  Labels: z.record(z.string(), z.string()).nullish(),
  User: z.string().default(''),
  Env: words,
  Entrypoint: words,
  Cmd: words,
  StopSignal: z.string().optional(),
})
const dockerInspection = z.tuple([z.object({ Id: z.string(), Config: imageConfiguration })])
const buildahInspection = z.object({ FromImageID: z.string(), Docker: z.object({ config: imageConfiguration }) })

const imageOf = (id: string, configuration: z.output<typeof imageConfiguration>): Image => ({
  id: id.replace('sha256:', ''),
  labels: configuration.Labels ?? {},
  user: configuration.User,
  environment: configuration.Env ?? [],
  entrypoint: configuration.Entrypoint ?? [],
  command: configuration.Cmd ?? [],
  stopSignal: configuration.StopSignal,
})
const absent = () => undefined

const docker = (run: Run): Engine => ({
  name: 'docker',
  inspect: name =>
    run('docker', ['image', 'inspect', name]).then(text => {
      const [image] = dockerInspection.parse(JSON.parse(text))
      return imageOf(image.Id, image.Config)
    }, absent),
  pull: name => succeeds(run('docker', ['pull', '--quiet', name], { timeoutMs: pullTimeoutMs })),
  importTar: async (tar, name, labels) => {
    const changes = Object.entries(labels).flatMap(([key, value]) => [
      '--change',
      `LABEL ${key}=${JSON.stringify(value)}`,
    ])
    await run('docker', ['import', ...changes, tar, name])
  },
  build: async request => {
    const env = { ...process.env, DOCKER_BUILDKIT: '1' }
    // The build uses the machine's own network, because its proxies and mirrors may be reachable only from there.
    const flags = ['--progress=plain', '--network=host']
    await run('docker', ['build', ...flags, ...buildFlags(request)], { env })
  },
  unpack: async name => {
    const directory = await mkdtemp(join(tmpdir(), 'espalier-unpacked-'))
    const release = () => rm(directory, { recursive: true, force: true })
    try {
      // The directory is the root file system of containers, which may run as any user.
      await chmod(directory, 0o755)
      const container = (await run('docker', ['create', name, 'nothing'])).trim()
      try {
        const tar = join(directory, 'root.tar')
        await run('docker', ['export', '--output', tar, container])
        await run('tar', ['--extract', '--numeric-owner', '--file', tar, '--directory', directory])
        await rm(tar)
      } finally {
        await run('docker', ['rm', container])
      }
      return { directory, release }
    } catch (cause) {
      await release()
      throw cause
    }
  },
  discard: async id => void (await succeeds(run('docker', ['image', 'rm', id]))),
  save: (name, archive) => writeComplete(archive, path => run('docker', ['save', '--output', path, name])),
})

const buildah = (run: Run): Engine => ({
  name: 'buildah',
  inspect: name =>
    run('buildah', ['inspect', '--type', 'image', name]).then(text => {
      const image = buildahInspection.parse(JSON.parse(text))
      return imageOf(image.FromImageID, image.Docker.config)
    }, absent),
  pull: name => succeeds(run('buildah', ['pull', '--quiet', name], { timeoutMs: pullTimeoutMs })),
  importTar: async (tar, name, labels) => {
    const container = (await run('buildah', ['from', 'scratch'])).trim()
    try {
      await run('buildah', ['add', '--quiet', container, tar, '/'])
      await run('buildah', ['config', ...pairs('--label', labels), container])
      await run('buildah', ['commit', '--quiet', container, name])
    } finally {
      await run('buildah', ['rm', container])
    }
  },
  build: async request => {
    // Isolation by chroot works in any container. This is sufficient, because all build steps are Espalier's own.
    const limits = ulimitFlags(await readFile('/proc/self/limits', 'utf8'))
    const flags = ['--isolation', 'chroot', ...limits, '--layers', '--format', 'docker', '--pull-never']
    await run('buildah', ['build', ...flags, ...buildFlags(request)])
  },
  unpack: async name => {
    const container = (await run('buildah', ['from', '--pull-never', name])).trim()
    const directory = (await run('buildah', ['mount', container])).trim()
    return { directory, release: async () => void (await run('buildah', ['rm', container])) }
  },
  discard: async id => void (await succeeds(run('buildah', ['rmi', id]))),
  save: (name, archive) =>
    writeComplete(archive, path => run('buildah', ['push', '--quiet', name, `docker-archive:${path}:${name}`])),
})

/**
 * Returns Docker if an engine with BuildKit answers, otherwise buildah. Installs buildah if this is permitted.
 * @throws ImageError if neither is available, or if the requested engine is not available
 */
export async function findEngine(
  run: Run,
  { wanted, install }: { wanted?: string; install?: Install } = {},
): Promise<Engine> {
  const hasDocker = async () =>
    (await succeeds(run('docker', ['info'], { timeoutMs: 20_000 }))) &&
    (await succeeds(run('docker', ['buildx', 'version'])))
  const hasBuildah = () => succeeds(run('buildah', ['--version']))
  if (wanted !== 'buildah' && (await hasDocker())) return docker(run)
  if (wanted === 'docker') throw new ImageError('no Docker engine with buildx answers')
  if (await hasBuildah()) return buildah(run)
  if ((await install?.(['buildah'])) && (await hasBuildah())) return buildah(run)
  const missing = wanted === 'buildah' ? '' : 'no Docker engine with buildx answers, and '
  throw new ImageError(`${missing}buildah is not installed (apt-get install buildah)`)
}
