/** Observed state of one Postgres on one volume. The plan of a member reads nothing else. */
import type { ConfigMap, PersistentVolumeClaim, Pod, Secret, StatefulSet } from '../../cluster/index.ts'
import { labels, type PinnedSize, type Region, type Size } from '../../crds/index.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { Drifts } from '../children/drift-history.ts'
import type { Instance } from '../objects/instance.ts'
import type { Owner } from '../objects/ownership.ts'
import type { SuspensionBlock } from '../objects/suspension-block.ts'
import type { PodSettings } from '../pod-settings.ts'
import type {
  AuthenticatorObservation,
  ChecksumFailures,
  McpStateObservation,
  ReferencesAnswer,
} from '../postgres/administrator.ts'
import type { ConfigurationState } from '../postgres/state.ts'
import type { ArchiveCertificate } from './archive/observe.ts'
import type { NodeFacts } from './pod/node.ts'
import type { PodFacts } from './pod/pod.ts'
import { systemIdentifierOf } from './storage/claim.ts'
import type { VolumeFacts } from './storage/persistent-volume.ts'

/** The member's own objects; an object of another owner with one of their names is not here. */
export type MemberChildren = {
  claim: PersistentVolumeClaim | undefined
  configuration: ConfigMap | undefined
  statefulSet: StatefulSet | undefined
  pod: Pod | undefined
  /** The Secret with which its agent logs in to the archive. */
  archive?: Secret | undefined
  /** The Secret with which it reads its restore source. */
  archiveSource?: Secret | undefined
}

/**
 * The PersistentVolumes of the member. `bound`: the claim's. `recorded`: the recorded one, usually the same. `copy`: a
 * second object for the storage of one that is being deleted.
 */
export type Volumes = {
  bound: VolumeFacts | undefined
  recorded: VolumeFacts | undefined
  copy: VolumeFacts | undefined
}

/** Postgres's own answer, when it was given, and in which run. */
export type PostgresFacts = {
  at: number
  run: string
  /** The pod's readiness at that time. */
  ready: boolean
  /** The password version that was compared with the roles. */
  passwordVersion: string | undefined
  /** The last answer within the timeout; absent if there is none in this run. */
  answer: PostgresAnswer | undefined
  /** How many consecutive probes have timed out since then. They are no sign of a failure, and make probes rarer. */
  slow: number
  /** The last probe found no machine at the address; a second one in a row counts as a failure. */
  isUncertain: boolean
  /** Postgres was changed after this answer: the answer is not used, and a new probe is due. */
  isOutdated: boolean
  /** How many changes of Postgres have failed in a row; absent for none. */
  failures?: number | undefined
  /** Since when Postgres is known to run with configuration files other than those that the operator wrote. */
  otherFilesSince?: number | undefined
}

export type PostgresAnswer =
  | { state: 'refused'; reason: string; message: string }
  | {
      state: 'answered'
      systemIdentifier: string
      /** Roles, database and privileges are as desired, and no password is older than the Secret's. */
      rolesInOrder: boolean
      /** Roles whose password a user has changed since it was set from the Secret. */
      changedByUser: DatabaseRole[]
      /**
       * A real login as `app`, with its password, over TLS, through its Service: `unreachable` if the Service does not
       * lead to it yet, `untried` if the password is not the Secret's.
       */
      login: 'succeeded' | 'refused' | 'unreachable' | 'untried'
      loginMessage?: string | undefined
      /** SHA-256 of the certificate that it presents. */
      certificate: string | undefined
      /**
       * A commit does not reach the WAL's disk. If the pod has its own WAL probe, its readiness reports this instead.
       */
      walHangs: boolean
      checksumFailures: ChecksumFailures | undefined
      /** Unchanged while nothing is written. */
      walPosition: string | undefined
      /** Its volume has free space. */
      hasFreeSpace: boolean
      configuration: ConfigurationState
      /** The platform's own role and statistics exist; no user's service waits for them. */
      platformInOrder: boolean
      /** The login of the service `rest`, if one is requested; `passwordVersion`: of the requested password. */
      authenticator?: (AuthenticatorObservation & { passwordVersion: string }) | undefined
      /** The objects that services' configurations name, at the time of the query. */
      references?: ReferencesAnswer | undefined
      /** Where the service `mcp` stores its conversations, if requested. */
      mcpState?: (McpStateObservation & { passwordVersion: string }) | undefined
      /** The progress of an import, as its session reports it. */
      importing?: string | undefined
      /**
       * A copy that only the operator can reach yet; `inherited`: how many objects of its source are still to be
       * removed.
       */
      closed?: { inherited: number } | undefined
    }

/** The cluster's refusal to grow a volume. */
export type GrowthRefusal = {
  /** The uid of the claim. */
  claim: string
  /** The requested storage. */
  storage: string
  message: string
  /** When to request it again, in ms since the epoch. */
  retryAt: number
  isDue: boolean
}

export type ObservedMember = {
  instance: Instance
  /** The owner of the children; undefined until the instance has its id. */
  owner: Owner | undefined
  /** The complete request had been applied when the status was written, and has not changed since. */
  isAtRest: boolean
  /** Work that needs a running Postgres, as the owner reports it. */
  suspensionBlock: SuspensionBlock | undefined
  region: Region | undefined
  /** The requested size. */
  size: Size | undefined
  /** The size that the member has; before it has one, the requested one. */
  appliedSize: { pinned: PinnedSize; size: Size | undefined }
  growthRefusal: GrowthRefusal | undefined
  /** Fields of the children that other managers keep changing. */
  drifts: Drifts
  /** The image for the major version; absent if the installation has none. */
  image: string | undefined
  /** The installation's settings for every pod. */
  podSettings: PodSettings
  /** The incarnation of the owner's data that it has. */
  incarnation: number
  /** Its number among the members with these data. */
  number: number
  children: MemberChildren
  /**
   * The claim has neither the labels of this owner nor of another existing one: it was another's, or lost its labels.
   */
  isOrphanClaim: boolean
  volumes: Volumes
  /** Volumes retained under the owner's id, while there is neither a claim nor a recorded volume. */
  retained: VolumeFacts[]
  /** The node on which the volume of a copy is made, for a claim that does not exist yet; undefined: the scheduler chooses. */
  copyNode: string | undefined
  /** The claim's volume is provisioned without a pod, and the pod is created after it. */
  provisionsWithoutPod: boolean
  /** Why a claim has waited for its volume for some time, as the cluster reports it. */
  provisioning: string | undefined
  /** What is known of the pod (`children.pod`). */
  pod: PodFacts | undefined
  /** The node of a pod that terminates, or whose node is silent. */
  node: NodeFacts | undefined
  postgres: PostgresFacts | undefined
  /** The certificate in the Secret `children.archive`; only if it archives. */
  archiveCertificate?: ArchiveCertificate | undefined
  /** The certificate in the Secret `children.archiveSource`; only until it is recovered. */
  archiveSource?: ArchiveCertificate | undefined
  /** The size of its data, as last measured. */
  dataBytes: number | undefined
  /** Bytes used on its volume, as last measured; only if the volume grows automatically. */
  volumeUse: number | undefined
}

/**
 * Which incarnation serves. For a database that was put back without its status this is read from its claims, first of
 * all from those known to contain data.
 */
export function incarnationOf(
  { status, firstIncarnation = 1 }: Instance,
  claims: readonly PersistentVolumeClaim[],
): number {
  if (status?.incarnation !== undefined) return status.incarnation
  const initialised = claims.filter(claim => systemIdentifierOf(claim) !== undefined)
  const numbers = (initialised.length > 0 ? initialised : claims).map(claim =>
    Number(claim.metadata.labels?.[labels.incarnation]),
  )
  return Math.max(firstIncarnation, ...numbers.filter(number => Number.isSafeInteger(number)))
}
