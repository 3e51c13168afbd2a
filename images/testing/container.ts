/**
 * Runs a container of a pod with runc, as a kubelet does: the image's files are read-only, the user and group are the
 * pod's, there are no capabilities, mounts have the owners and modes of a kubelet, and process 1 is its own. The
 * network is the machine's, so that a test reaches an address in 127.0.0.0/8 on which the container listens.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Image } from '../engine.ts'

export type Mount = { path: string; readOnly: boolean } & (
  | { directory: string }
  | { /** Its maximum size in bytes. */ memory: number }
)

export type ContainerRequest = {
  image: Image
  /** The directory with the image's files. */
  root: string
  /** A directory of this container. */
  work: string
  user: { uid: number; gid: number; groups: number[] }
  /** As in a pod: they replace the image's entrypoint and command. */
  command?: string[] | undefined
  args?: string[] | undefined
  environment?: Record<string, string>
  mounts?: Mount[]
  /** Limits of memory in bytes, and of processors. Default: no limits. */
  limits?: { memory: number; cpu: number }
}

export type Container = {
  /** The process id of the container's process 1, on the machine. */
  pid(): number
  output(): string
  kill(signal: NodeJS.Signals): void
  /** The exit code. After a signal: 128 and the signal's number. */
  exited: Promise<number>
  remove(): void
}

/** Combines a pod's command and args with the image's (Kubernetes, "Define a Command and Arguments"). */
export function commandOf(image: Pick<Image, 'entrypoint' | 'command'>, command?: string[], args?: string[]): string[] {
  if (command !== undefined) return [...command, ...(args ?? [])]
  return [...image.entrypoint, ...(args ?? image.command)]
}

/** An OCI runtime specification's config.json. */
function specification({ image, root, user, command, args, environment = {}, mounts = [], limits }: ContainerRequest) {
  const named = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
  const none = { bounding: [], effective: [], permitted: [], inheritable: [], ambient: [] }
  return {
    ociVersion: '1.0.2',
    process: {
      terminal: false,
      user: { uid: user.uid, gid: user.gid, additionalGids: user.groups },
      args: commandOf(image, command, args),
      env: [...image.environment, ...named],
      cwd: '/',
      capabilities: none,
      noNewPrivileges: true,
    },
    root: { path: root, readonly: true },
    hostname: 'pod',
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=65536k'] },
      { destination: '/sys', type: 'none', source: '/sys', options: ['rbind', 'nosuid', 'noexec', 'nodev', 'ro'] },
      ...mounts.map(mount => ({
        destination: mount.path,
        ...('memory' in mount
          ? { type: 'tmpfs', source: 'tmpfs', options: ['mode=1777', `size=${mount.memory}`] }
          : { type: 'bind', source: mount.directory, options: ['rbind', mount.readOnly ? 'ro' : 'rw'] }),
      })),
    ],
    linux: {
      namespaces: ['pid', 'ipc', 'uts', 'mount'].map(type => ({ type })),
      ...(limits && {
        resources: {
          memory: { limit: limits.memory },
          cpu: { period: 100_000, quota: Math.round(limits.cpu * 100_000) },
        },
      }),
    },
  }
}

const ended = (child: ChildProcess): Promise<number> =>
  new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve(code ?? -1))
  })

export function startContainer(request: ContainerRequest): Container {
  const id = `espalier-test-${randomBytes(6).toString('hex')}`
  const bundle = join(request.work, id)
  mkdirSync(bundle)
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(specification(request)))
  const pidFile = join(bundle, 'pid')
  const child = spawn('runc', ['run', '--bundle', bundle, '--pid-file', pidFile, id], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
  const runc = (...args: string[]) => execFileSync('runc', args, { stdio: 'pipe' })
  return {
    pid: () => (existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0),
    output: () => output,
    kill: signal => void runc('kill', id, signal),
    exited: ended(child),
    remove: () => {
      runc('delete', '--force', id)
      rmSync(bundle, { recursive: true, force: true })
    },
  }
}
