/** The observed state of one Postgres on one volume. The plan of a member reads only this. */
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

/** The member's own objects. An object of another owner is not included, even if it has one of these names. */
export type MemberChildren = {
  claim: PersistentVolumeClaim | undefined
  configuration: ConfigMap | undefined
  statefulSet: StatefulSet | undefined
  pod: Pod | undefined
  /** The Secret with which the member's agent logs in to the archive. */
  archive?: Secret | undefined
  /** The Secret with which the member reads its restore source. */
  archiveSource?: Secret | undefined
}

/**
 * The member's PersistentVolumes. `bound`: the volume that the claim names. `recorded`: the volume that the status
 * names, usually the same volume. `copy`: a second object for the storage of a volume that is being deleted.
 */
export type Volumes = {
  bound: VolumeFacts | undefined
  recorded: VolumeFacts | undefined
  copy: VolumeFacts | undefined
}

/** The last answer of Postgres, with its time and the pod's run. */
export type PostgresFacts = {
  at: number
  run: string
  /** The pod's readiness at that time. */
  ready: boolean
  /** The version of the passwords that the probe compared with the roles. */
  passwordVersion: string | undefined
  /** The last answer within the timeout; absent if Postgres has not answered in this run. */
  answer: PostgresAnswer | undefined
  /**
   * How many consecutive probes have timed out since the answer. A timeout is no sign of a failure, but delays the next
   * probe.
   */
  slow: number
  /** The last probe found no machine at the address. If the next probe also finds none, Postgres counts as failed. */
  isUncertain: boolean
  /** Postgres was changed after this answer, so a new probe is due. */
  isOutdated: boolean
  /** How many consecutive changes of Postgres have failed; absent if the last one succeeded. */
  failures?: number | undefined
  /** The time since which Postgres is known to run with configuration files that differ from the operator's. */
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
       * The result of a real login as `app`, over TLS, by the path that clients use. `unreachable`: the Service does
       * not route to the pod yet. `untried`: no result, for example because the role's password is not the Secret's.
       */
      login: 'succeeded' | 'refused' | 'unreachable' | 'untried'
      loginMessage?: string | undefined
      /** SHA-256 of the certificate that Postgres presents. */
      certificate: string | undefined
      /**
       * A commit does not reach the WAL's disk. If the pod has a WAL probe, the pod's readiness reports this instead.
       */
      walHangs: boolean
      checksumFailures: ChecksumFailures | undefined
      /** The WAL position; unchanged while nothing is written. */
      walPosition: string | undefined
      /** Whether the volume has free space. */
      hasFreeSpace: boolean
      configuration: ConfigurationState
      /** The platform's own role and statistics exist. No user's service waits for them. */
      platformInOrder: boolean
      /**
       * The login of the service `rest`, if the service is requested; `passwordVersion`: the version of the requested
       * password.
       */
      authenticator?: (AuthenticatorObservation & { passwordVersion: string }) | undefined
      /** The objects that the services' configurations name, at the time of the query. */
      references?: ReferencesAnswer | undefined
      /** The storage of the service `mcp` for its conversations, if requested. */
      mcpState?: (McpStateObservation & { passwordVersion: string }) | undefined
      /** The progress of an import, as the import's session reports it. */
      importing?: string | undefined
      /**
       * Set for a copy that only the operator can connect to. `inherited`: how many objects of the source must still be
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
  /** The time of the next request, in ms since the epoch. */
  retryAt: number
  isDue: boolean
}

export type ObservedMember = {
  instance: Instance
  /** The children's owner; undefined until the instance has its id. */
  owner: Owner | undefined
  /** Whether the last status reports the complete request as applied, and the request has not changed since. */
  isAtRest: boolean
  /** Work that needs a running Postgres, as the owner reports it. */
  suspensionBlock: SuspensionBlock | undefined
  region: Region | undefined
  /** The requested size. */
  size: Size | undefined
  /** The applied size; the requested size if none is applied yet. */
  appliedSize: { pinned: PinnedSize; size: Size | undefined }
  growthRefusal: GrowthRefusal | undefined
  /** Fields of the children that other managers keep changing. */
  drifts: Drifts
  /** The image for the major version; absent if the installation has none. */
  image: string | undefined
  /** The installation's settings for every pod. */
  podSettings: PodSettings
  /** The incarnation number of the member's data. */
  incarnation: number
  /** The member's number within its incarnation. */
  number: number
  children: MemberChildren
  /**
   * Whether the claim's labels name neither this owner nor another existing owner. The claim's owner was deleted, or
   * the claim lost its labels.
   */
  isOrphanClaim: boolean
  volumes: Volumes
  /** Volumes retained under the id of an owner that has neither a claim nor a recorded volume. */
  retained: VolumeFacts[]
  /**
   * The node on which to create a copy's volume, if the claim does not exist yet. Undefined if the scheduler chooses.
   */
  copyNode: string | undefined
  /** The storage driver creates the claim's volume before a pod exists. The operator creates the pod afterwards. */
  provisionsWithoutPod: boolean
  /** Why a claim has waited for its volume for some time, as the cluster reports it. */
  provisioning: string | undefined
  /** Facts about the pod (`children.pod`). */
  pod: PodFacts | undefined
  /** The pod's node, if the pod terminates or the node does not respond. */
  node: NodeFacts | undefined
  postgres: PostgresFacts | undefined
  /** The certificate in the Secret `children.archive`; only if the member archives. */
  archiveCertificate?: ArchiveCertificate | undefined
  /** The certificate in the Secret `children.archiveSource`; only until the member is recovered. */
  archiveSource?: ArchiveCertificate | undefined
  /** The last measured size of the data. */
  dataBytes: number | undefined
  /** The last measured use of the volume, in bytes; only if the volume grows automatically. */
  volumeUse: number | undefined
}

/**
 * Returns the number of the serving incarnation. If no status records it, returns the highest number among the claims.
 * Claims that are known to contain data have priority.
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
