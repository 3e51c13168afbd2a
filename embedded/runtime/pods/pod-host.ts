/** The parts of the runtime that all pods use, and the paths of a pod's files. */
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Pod } from '../../../cluster/index.ts'
import type { Layout } from '../directories.ts'
import type { ImageResolver } from '../images/resolver.ts'
import type { AddressPool } from '../network/addresses.ts'
import type { VolumeUse } from '../volumes/use.ts'
import type { BackoffLimits } from './backoff.ts'
import type { Container } from './environment.ts'
import type { ClaimVolume } from './mounts.ts'
import type { ProbeTiming } from './probing.ts'
import type { References } from './references.ts'
import type { SharedProbes } from './shared-probe.ts'

export type PodHost = {
  layout: Layout
  addresses: AddressPool
  images: ImageResolver
  use: VolumeUse
  referencesIn(namespace: string): References
  findClaim(namespace: string, name: string): ClaimVolume
  /** The id that identifies the processes of this runtime. */
  runtimeId: string
  warn(pod: Pod, reason: string, message: string): void
  backoff: BackoffLimits
  probeTiming: ProbeTiming
  sharedProbes: SharedProbes
  logger: Logger
  now: () => number
}

export const runtimeMarker = 'ESPALIER_RUNTIME_ID'
export const containerMarker = 'ESPALIER_RUNTIME_CONTAINER'

export const containerId = (host: PodHost, podUid: string, container: Container): string =>
  `${host.runtimeId}/${podUid}/${container.name}`

/** The pod's home: HOME, TMPDIR and working directory. Besides its volumes, a pod's containers may write only here. */
export const homeOf = (layout: Layout, uid: string): string => join(layout.pod(uid), 'home')
export const terminationFile = (layout: Layout, uid: string, container: Container): string =>
  join(homeOf(layout, uid), `.termination-${container.name}`)

/** The environment variable, with its value, that identifies the processes of a container. */
export const containerMarkerVariable = (host: PodHost, podUid: string, container: Container): string =>
  `${containerMarker}=${containerId(host, podUid, container)}`
