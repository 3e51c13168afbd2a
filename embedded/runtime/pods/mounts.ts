/**
 * The volumes of a pod as directories of this machine. Its claims are in use as long as the pod exists. The files of
 * Secrets and ConfigMaps follow their objects.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Pod } from '../../../cluster/index.ts'
import { type Layout, makeOwned, makePassage } from '../directories.ts'
import { RuntimeError } from '../errors.ts'
import { sameFiles, writeAtomically } from '../volumes/atomic.ts'
import type { VolumeUse } from '../volumes/use.ts'
import type { Container } from './environment.ts'
import type { PathMapping } from './expansion.ts'
import { filesOf, isProjected, type ProjectedFiles, type Volume } from './projection.ts'
import type { References } from './references.ts'

/** A bound claim, or the reason why it cannot be used. */
export type ClaimVolume =
  | {
      bound: true
      /** The volume's handle. */
      volume: string
      directory: string
      /** True for ReadWriteOncePod: only one pod at a time may use the volume. */
      alone: boolean
    }
  | { bound: false; message: string; isTerminating?: boolean }

type MountOptions = {
  pod: Pod
  podIp: string
  layout: Layout
  use: VolumeUse
  references: References
  findClaim(namespace: string, name: string): ClaimVolume
}

export type Mounts = {
  /** Directories by the volume's name in the pod. */
  directories: ReadonlyMap<string, string>
  /** Handles of the claims' volumes. */
  claims: string[]
  /** Roots of all claims, and of the claims that no other pod may use meanwhile. */
  claimDirectories: string[]
  exclusiveDirectories: string[]
  /** Updates the files of Secrets and ConfigMaps. @throws RuntimeError if one is missing now */
  refresh(): void
}

const uidOf = (pod: Pod): string => pod.metadata.uid ?? ''

/** @throws RuntimeError `ReferenceMissing` while a referenced object is missing, `Unsupported` */
export function mountVolumes(options: MountOptions): Mounts {
  const { pod, layout, use } = options
  const volumes = pod.spec?.volumes ?? []
  const root = join(layout.pod(uidOf(pod)), 'volumes')
  const written = new Map<string, ProjectedFiles>()
  const bound = claimsOf(options, volumes)
  const directories = new Map(
    volumes.map(volume => [volume.name, bound.get(volume.name)?.directory ?? join(root, volume.name)]),
  )

  const project = (volume: Volume) => {
    const files = filesOf(volume, pod, options.podIp, options.references)
    const before = written.get(volume.name)
    if (before !== undefined && sameFiles(before, files)) return
    const directory = join(root, volume.name)
    if (before === undefined) rmSync(directory, { recursive: true, force: true }) // a crash may have left files
    writeAtomically(directory, files, layout.owner)
    written.set(volume.name, files)
  }

  makePassage(layout, layout.pod(uidOf(pod)))
  makePassage(layout, root)
  for (const volume of volumes) {
    if (isProjected(volume)) project(volume)
    else if (volume.emptyDir) makeOwned(layout, join(root, volume.name))
  }
  for (const { volume, alone } of bound.values()) {
    if (use.acquire(volume, uidOf(pod), alone)) continue
    releaseVolumes(use, uidOf(pod), bound)
    throw new RuntimeError('ReferenceMissing', 'a volume is in use by another pod')
  }
  const claims = [...bound.values()]
  return {
    directories,
    claims: claims.map(({ volume }) => volume),
    claimDirectories: claims.map(({ directory }) => directory),
    exclusiveDirectories: claims.filter(({ alone }) => alone).map(({ directory }) => directory),
    refresh() {
      for (const volume of volumes) if (isProjected(volume)) project(volume)
    },
  }
}

function releaseVolumes(use: VolumeUse, pod: string, bound: Map<string, { volume: string }>): void {
  for (const { volume } of bound.values()) use.release(volume, pod)
}

function claimsOf({ pod, findClaim }: MountOptions, volumes: Volume[]) {
  const bound = new Map<string, Extract<ClaimVolume, { bound: true }>>()
  for (const volume of volumes) {
    if (volume.name.includes('/') || volume.name.startsWith('.')) {
      throw new RuntimeError('Unsupported', `"${volume.name}" is not a valid volume name`)
    }
    const name = volume.persistentVolumeClaim?.claimName
    if (name !== undefined) {
      const claim = findClaim(pod.metadata.namespace ?? '', name)
      if (!claim.bound) throw new RuntimeError('ReferenceMissing', claim.message)
      bound.set(volume.name, claim)
    } else if (!isProjected(volume) && !volume.emptyDir) {
      const supported = 'persistentVolumeClaim, emptyDir, secret, configMap or projected'
      throw new RuntimeError('Unsupported', `volume "${volume.name}" must be ${supported} here`)
    }
  }
  return bound
}

/** Maps a container's mount paths to directories. @throws RuntimeError `Unsupported` */
export function pathMappings(container: Container, directories: ReadonlyMap<string, string>): PathMapping[] {
  return (container.volumeMounts ?? []).map(({ name, mountPath, subPath }) => {
    const directory = directories.get(name)
    if (directory === undefined) {
      throw new RuntimeError(
        'Unsupported',
        `container "${container.name}" mounts "${name}", which is not a volume of the pod`,
      )
    }
    if (subPath?.split('/').includes('..') || subPath?.startsWith('/')) {
      throw new RuntimeError('Unsupported', `subPath "${subPath}" must be relative, without ".."`)
    }
    return { mountPath, directory: subPath ? join(directory, subPath) : directory }
  })
}
