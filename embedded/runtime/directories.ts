/**
 * Where things lie under the runtime's directory. As root the directories on the way are root's, open to the group of
 * the user that workloads run as, and what belongs to a workload is that user's, 0700; otherwise all is the user's own.
 *
 *     identity.json                       what this runtime is
 *     volumes/<handle>                    one directory per PersistentVolume, whose handle is <namespace>/<uid> of the claim
 *                                         that it was made for
 *     snapshots/<namespace>/<uid>         one image per VolumeSnapshot
 *     deferred/<namespace>/<uid>          a link to the volume that is the image of this VolumeSnapshot, until there is one in snapshots/
 *     staging/                            images while they are copied; nothing here is worth keeping
 *     pool.xfs, pool/                     a file system whose files can share blocks, and where it is mounted (pool/): it has
 *                                         volumes, snapshots and staging of its own, where all new ones are made
 *     pods/<pod uid>/                     home and volumes of a pod; gone with it
 *     logs/<namespace>/<pod>/             output of its containers, by name: a pod made again goes on with it
 *     running/                            the lock of the process that works here
 *     processes/                          records of what runs, to be ended after a crash
 */
import { chmodSync, chownSync, existsSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { messageOf, RuntimeError } from './errors.ts'

/** The user that workloads run as where the runtime itself is root. */
export type Owner = { uid: number; gid: number }

/** Directories of one file system: what is in them can be renamed into each other. */
export type Place = { volumes: string; snapshots: string; deferred: string; staging: string }

export type Layout = {
  root: string
  owner: Owner | undefined
  /** Where volumes and snapshots are; new ones are made in the first. */
  places: readonly [Place, ...Place[]]
  /** Of the root's file system. */
  staging: string
  pods: string
  logs: string
  processes: string
  running: string
  /** Where a volume or the image of a snapshot is, or will be. */
  volume(handle: string): string
  snapshot(namespace: string, uid: string): string
  /** All places where the image of a snapshot can be. */
  snapshotPaths(namespace: string, uid: string): string[]
  /** The staging area of the file system that a volume or a snapshot is in. */
  stagingOf(path: string): string
  pod(uid: string): string
  log(namespace: string, pod: string): string
}

/**
 * Makes a directory that workloads pass through and may read, but cannot change: root's, and their group's. What root
 * does inside can then not be led astray by a link that a workload puts in its way.
 */
export function makePassage(layout: { owner: Owner | undefined }, path: string): void {
  mkdirSync(path, { recursive: true })
  chmodSync(path, layout.owner === undefined ? 0o700 : 0o750)
  if (layout.owner !== undefined) chownSync(path, process.getuid?.() ?? 0, layout.owner.gid)
}

/** Makes a directory for workloads alone. */
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
  const place = makePlace(root, owner)
  try {
    makePassage({ owner }, pods)
    for (const path of [logs, processes, running]) makePassage({ owner: undefined }, path)
  } catch (error) {
    throw notWritable(root, error)
  }
  if (owner !== undefined) checkReachable(root, owner)
  return {
    ...{ root, owner, ...finding([place]), staging: place.staging, pods, logs, processes, running },
    pod: uid => join(pods, uid),
    log: (namespace, pod) => join(logs, namespace, pod),
  }
}

/** The layout with a further file system, in which all that is new is made. @throws RuntimeError `DirectoryNotWritable` */
export function withPool(layout: Layout, directory: string): Layout {
  makePassage(layout, directory)
  return { ...layout, ...finding([makePlace(directory, layout.owner), ...layout.places]) }
}

function makePlace(directory: string, owner: Owner | undefined): Place {
  const place = {
    volumes: join(directory, 'volumes'),
    snapshots: join(directory, 'snapshots'),
    deferred: join(directory, 'deferred'),
    staging: join(directory, 'staging'),
  }
  try {
    makePassage({ owner }, place.volumes)
    for (const path of [place.snapshots, place.deferred, place.staging]) makePassage({ owner: undefined }, path)
  } catch (error) {
    throw notWritable(directory, error)
  }
  return place
}

function finding(
  places: readonly [Place, ...Place[]],
): Pick<Layout, 'places' | 'volume' | 'snapshot' | 'snapshotPaths' | 'stagingOf'> {
  const [first] = places
  const snapshotPaths = (namespace: string, uid: string) => [
    ...places.map(({ snapshots }) => join(snapshots, namespace, uid)),
    ...places.map(({ deferred }) => join(deferred, namespace, uid)),
  ]
  const holds = (directory: string, path: string): boolean => path.startsWith(`${directory}/`)
  return {
    places,
    volume: handle =>
      places.map(({ volumes }) => join(volumes, handle)).find(existsSync) ?? join(first.volumes, handle),
    snapshot: (namespace, uid) =>
      snapshotPaths(namespace, uid).find(existsSync) ?? join(first.snapshots, namespace, uid),
    snapshotPaths,
    stagingOf: path =>
      (places.find(({ volumes, snapshots }) => holds(volumes, path) || holds(snapshots, path)) ?? first).staging,
  }
}

const notWritable = (path: string, error: unknown): RuntimeError =>
  new RuntimeError('DirectoryNotWritable', `cannot work in ${path}: ${messageOf(error)}`, { cause: error })

/** The directory by its real path, which is how the system names where a process works. */
function makeRoot(directory: string, owner: Owner | undefined): string {
  try {
    mkdirSync(directory, { recursive: true })
    if (owner !== undefined) chmodSync(directory, 0o711)
    return realpathSync(directory)
  } catch (error) {
    throw notWritable(directory, error)
  }
}

/** Whether a user other than this one may pass through every directory on the way to a path. */
function checkReachable(path: string, owner: Owner): void {
  for (let directory = realpathSync(path); ; directory = dirname(directory)) {
    const { uid, gid, mode } = statSync(directory)
    const bit = uid === owner.uid ? 0o100 : gid === owner.gid ? 0o010 : 0o001
    if ((mode & bit) === 0) {
      const message = `user ${owner.uid}, as whom databases run, cannot enter ${directory}`
      throw new RuntimeError('DirectoryNotWritable', message)
    }
    if (directory === dirname(directory)) return
  }
}
