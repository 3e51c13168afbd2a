/** What a pass knows of one Postgres on one volume. The plan of a member reads nothing else. */
import type { ConfigMap, PersistentVolumeClaim, Pod, StatefulSet } from '../../cluster/index.ts'
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
import type { NodeFacts } from './pod/node.ts'
import type { PodFacts } from './pod/pod.ts'
import { systemIdentifierOf } from './storage/claim.ts'
import type { VolumeFacts } from './storage/persistent-volume.ts'

/** The objects that are the member's own; an object of another owner under one of their names is not here. */
export type MemberChildren = {
  claim: PersistentVolumeClaim | undefined
  configuration: ConfigMap | undefined
  statefulSet: StatefulSet | undefined
  pod: Pod | undefined
}

/**
 * The PersistentVolumes that matter. `bound`: of the claim. `recorded`: the one that is on record, mostly the same.
 * `copy`: a second object for the storage of one that is going.
 */
export type Volumes = {
  bound: VolumeFacts | undefined
  recorded: VolumeFacts | undefined
  copy: VolumeFacts | undefined
}

/** What Postgres itself answered, when, and in which run. */
export type PostgresFacts = {
  at: number
  run: string
  /** What the pod's readiness was then. */
  ready: boolean
  /** The mark of the passwords that were compared with the roles'. */
  mark: string | undefined
  /** The last answer that came in time; absent where none has, in this run. */
  answer: PostgresAnswer | undefined
  /** How many looks in a row were too slow since then. They say nothing against Postgres, and make looks rarer. */
  slow: number
  /** The last look found no machine at the address; a second one in a row counts. */
  isDoubtful: boolean
  /** Something was done in Postgres since: a new look is due, and nothing is decided by this one. */
  isOutdated: boolean
  /** How many times in a row what was done in it has failed; absent for none. */
  failures?: number | undefined
  /** Since when it has not read the files that it should have, as far as is known. */
  otherFilesSince?: number | undefined
}

export type PostgresAnswer =
  | { state: 'refused'; reason: string; message: string }
  | {
      state: 'answered'
      systemIdentifier: string
      /** Roles, database and privileges are as they should be, and no password is older than the Secret's. */
      rolesInOrder: boolean
      /** Whose password a user has changed since it was set from the Secret. */
      changedByUser: DatabaseRole[]
      /**
       * A real login as `app`, with its password, over TLS, by way of its Service: `unreachable` where that does not lead to it
       * yet, `untried` where the password is not ours.
       */
      login: 'succeeded' | 'refused' | 'unreachable' | 'untried'
      loginMessage?: string | undefined
      /** SHA-256 of the certificate it shows. */
      certificate: string | undefined
      /** A commit comes to rest on the WAL's disk; where the pod itself looks after that, its readiness says so. */
      walHangs: boolean
      checksumFailures: ChecksumFailures | undefined
      /** Stands still where nothing is written. */
      walPosition: string | undefined
      /** Something more can be written to its volume. */
      hasRoom: boolean
      configuration: ConfigurationState
      /** The platform's own role and statistics are there; nobody's service waits for them. */
      platformInOrder: boolean
      /** Of the login of the service `rest`, where one is wanted; `mark`: of the password that was wanted. */
      authenticator?: (AuthenticatorObservation & { mark: string }) | undefined
      /** What the configurations of services name, as they were when it was asked. */
      references?: ReferencesAnswer | undefined
      /** Of where the service `mcp` keeps its conversations, where that is wanted. */
      mcpState?: (McpStateObservation & { mark: string }) | undefined
      /** It is a copy that nobody but the operator reaches yet; `inherited`: what of its source's it still has to be rid of. */
      closed?: { inherited: number } | undefined
    }

/** The cluster's word against a volume's growth. */
export type GrowthRefusal = {
  /** The uid of the claim. */
  claim: string
  /** What was asked for. */
  storage: string
  message: string
  /** When to ask again, in ms since the epoch. */
  retryAt: number
  isDue: boolean
}

export type ObservedMember = {
  instance: Instance
  /** The owner of the children; undefined until the id of the instance is settled. */
  owner: Owner | undefined
  /** All that was requested had been applied when the status was written, and nothing else is requested since. */
  isAtRest: boolean
  /** What needs Postgres running, as the owner reports. */
  suspensionBlock: SuspensionBlock | undefined
  region: Region | undefined
  /** Of the size that is asked for. */
  size: Size | undefined
  /** The size that the member has; before it has one, the one that is asked for. */
  appliedSize: { pinned: PinnedSize; size: Size | undefined }
  growthRefusal: GrowthRefusal | undefined
  /** What others keep changing on the children. */
  drifts: Drifts
  /** The image that runs the major version; absent where the installation has none. */
  image: string | undefined
  /** What the installation says of every pod. */
  podSettings: PodSettings
  /** Which data of its owner's it has. */
  incarnation: number
  /** Which of its owner's members it is, of those that have these data. */
  number: number
  children: MemberChildren
  /** The claim is not marked as ours, nor as a living owner's: it was another's, or lost its marks. */
  isOrphanClaim: boolean
  volumes: Volumes
  /** Volumes that were retained under the owner's id, while there is neither a claim nor a volume on record. */
  retained: VolumeFacts[]
  /** The node on which the volume of a copy is made, for a claim that does not exist yet; undefined: the scheduler chooses. */
  copyNode: string | undefined
  /** The claim's volume is provisioned without a pod, and the pod is created after it. */
  provisionsWithoutPod: boolean
  /** What the cluster says of a claim that still waits for its volume, after a while. */
  provisioning: string | undefined
  /** Of children.pod. */
  pod: PodFacts | undefined
  /** Of a pod that terminates, or whose node is silent. */
  node: NodeFacts | undefined
  postgres: PostgresFacts | undefined
  /** The size of its data, as last measured. */
  dataBytes: number | undefined
  /** Bytes used on its volume, as last measured: only where the volume grows by itself. */
  volumeUse: number | undefined
}

/**
 * Which volume serves. A database that was put back without its status has what its claims say, before all the claim
 * on which data are known to be.
 */
export function incarnationOf({ status }: Instance, claims: readonly PersistentVolumeClaim[]): number {
  if (status?.incarnation !== undefined) return status.incarnation
  const initialised = claims.filter(claim => systemIdentifierOf(claim) !== undefined)
  const numbers = (initialised.length > 0 ? initialised : claims).map(claim =>
    Number(claim.metadata.labels?.[labels.incarnation]),
  )
  return Math.max(1, ...numbers.filter(number => Number.isSafeInteger(number)))
}
