/**
 * Paths in the runtime's directory. If the runtime is root, the upper directories belong to root, and the group of the
 * workloads' user can read them. A workload's files belong to that user, with mode 0700. If the runtime is not root,
 * all files belong to the runtime's user.
 *
 *     identity.json                       the runtime's id and network
 *     volumes/<handle>                    one directory per PersistentVolume; the handle is <namespace>/<uid> of the claim
 *                                         that it was created for
 *     snapshots/<namespace>/<uid>         one image per VolumeSnapshot
 *     deferred/<namespace>/<uid>          a link to the volume that is the image of this VolumeSnapshot until it is copied
 *     staging/                            images during copying; its contents can be deleted
 *     pool.xfs, pool/                     a file system whose files can share blocks, mounted at pool/, with its own volumes,
 *                                         snapshots and staging; new ones are created there
 *     pods/<pod uid>/                     home and volumes of a pod; deleted with it
 *     logs/<namespace>/<pod>/             output of its containers, by name: a new pod of the same name continues it
 *     running/                            the lock of the running process
 *     processes/                          records of running processes, which are killed after a crash
 */
import { chmodSync, chownSync, existsSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { messageOf, RuntimeError } from './errors.ts'

/** The user that workloads run as if the runtime is root. */
export type Owner = { uid: number; gid: number }

/** Directories on one file system, so that files can be renamed between them. */
export type StorageLocation = { volumes: string; snapshots: string; deferred: string; staging: string }

export type Layout = {
  root: string
  owner: Owner | undefined
  /** Locations of volumes and snapshots. The runtime creates new ones in the first location. */
  locations: readonly [StorageLocation, ...StorageLocation[]]
  /** A staging area on the root directory's file system. */
  staging: string
  pods: string
  logs: string
  processes: string
  running: string
  /** The path of a volume or snapshot image, existing or new. */
  volume(handle: string): string
  snapshot(namespace: string, uid: string): string
  /** All possible paths of a snapshot image. */
  snapshotPaths(namespace: string, uid: string): string[]
  /** The staging area on the same file system as a volume or snapshot. */
  stagingOf(path: string): string
  pod(uid: string): string
  log(namespace: string, pod: string): string
}

/**
 * Creates a directory that workloads can enter and read but not change. It belongs to root and the workloads' group. So
 * a workload cannot redirect root's file operations with a link.
 */
export function makePassage(layout: { owner: Owner | undefined }, path: string): void {
  mkdirSync(path, { recursive: true })
  chmodSync(path, layout.owner === undefined ? 0o700 : 0o750)
  if (layout.owner !== undefined) chownSync(path, process.getuid?.() ?? 0, layout.owner.gid)
}

/** Creates a directory for workloads only. */
export function makeOwned(layout: { owner: Owner | undefined }, path: string, mode = 0o700): void {
  mkdirSync(path, { recursive: true })
  chmodSync(path, mode)
  if (layout.owner !== undefined) chownSync(path, layout.owner.uid, layout.owner.gid)
}

/** @throws RuntimeError `DirectoryNotWritable` */
export function openLayout(directory: string, owner?: Owner): Layout {
  const root = makeRoot(directory, owner)
  const [pods, logs] = [join(root, 'pods'), join(root, 'logs')]
  const [processes, running] = [join(root, 'processes'), join(root, 'running')]
  const location = makeLocation(root, owner)
  try {
    makePassage({ owner }, pods)
    for (const path of [logs, processes, running]) makePassage({ owner: undefined }, path)
  } catch (error) {
    throw notWritable(root, error)
  }
  if (owner !== undefined) checkReachable(root, owner)
  return {
    ...{ root, owner, ...finding([location]), staging: location.staging, pods, logs, processes, running },
    pod: uid => join(pods, uid),
    log: (namespace, pod) => join(logs, namespace, pod),
  }
}

/**
 * Returns the layout with another file system for new volumes and snapshots. @throws RuntimeError
 * `DirectoryNotWritable`
 */
export function withPool(layout: Layout, directory: string): Layout {
  makePassage(layout, directory)
  return { ...layout, ...finding([makeLocation(directory, layout.owner), ...layout.locations]) }
}

function makeLocation(directory: string, owner: Owner | undefined): StorageLocation {
  const location = {
    volumes: join(directory, 'volumes'),
    snapshots: join(directory, 'snapshots'),
    deferred: join(directory, 'deferred'),
    staging: join(directory, 'staging'),
  }
  try {
    makePassage({ owner }, location.volumes)
    for (const path of [location.snapshots, location.deferred, location.staging])
      makePassage({ owner: undefined }, path)
  } catch (error) {
    throw notWritable(directory, error)
  }
  return location
}

function finding(
  locations: readonly [StorageLocation, ...StorageLocation[]],
): Pick<Layout, 'locations' | 'volume' | 'snapshot' | 'snapshotPaths' | 'stagingOf'> {
  const [first] = locations
  const snapshotPaths = (namespace: string, uid: string) => [
    ...locations.map(({ snapshots }) => join(snapshots, namespace, uid)),
    ...locations.map(({ deferred }) => join(deferred, namespace, uid)),
  ]
  const isWithin = (directory: string, path: string): boolean => path.startsWith(`${directory}/`)
  return {
    locations,
    volume: handle =>
      locations.map(({ volumes }) => join(volumes, handle)).find(existsSync) ?? join(first.volumes, handle),
    snapshot: (namespace, uid) =>
      snapshotPaths(namespace, uid).find(existsSync) ?? join(first.snapshots, namespace, uid),
    snapshotPaths,
    stagingOf: path =>
      (locations.find(({ volumes, snapshots }) => isWithin(volumes, path) || isWithin(snapshots, path)) ?? first)
        .staging,
  }
}

const notWritable = (path: string, error: unknown): RuntimeError =>
  new RuntimeError('DirectoryNotWritable', `cannot use the directory ${path}: ${messageOf(error)}`, { cause: error })

/** The directory's real path, because /proc shows the working directory of a process in this form. */
function makeRoot(directory: string, owner: Owner | undefined): string {
  try {
    mkdirSync(directory, { recursive: true })
    if (owner !== undefined) chmodSync(directory, 0o711)
    return realpathSync(directory)
  } catch (error) {
    throw notWritable(directory, error)
  }
}

/** Whether another user can enter every directory of a path. */
function checkReachable(path: string, owner: Owner): void {
  for (let directory = realpathSync(path); ; directory = dirname(directory)) {
    const { uid, gid, mode } = statSync(directory)
    const bit = uid === owner.uid ? 0o100 : gid === owner.gid ? 0o010 : 0o001
    if ((mode & bit) === 0) {
      const message = `user ${owner.uid}, which runs the databases, cannot enter ${directory}`
      throw new RuntimeError('DirectoryNotWritable', message)
    }
    if (directory === dirname(directory)) return
  }
}
