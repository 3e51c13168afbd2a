/**
 * All that a pass knows of one Postgres: gathered from the caches by observe.ts, decided upon by plan/, which reads
 * nothing else. No secret is among it.
 */
import type {
  ConfigMap,
  KindName,
  NetworkPolicy,
  PersistentVolumeClaim,
  Pod,
  PodDisruptionBudget,
  Secret,
  Service,
  StatefulSet,
} from '../../cluster/index.ts'
import { labels, type PinnedSize, type Region, type Rotations, type Size } from '../../crds/index.ts'
import type { Route } from '../../routes/route.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { NodeFacts } from '../member/pod/node.ts'
import type { PodFacts } from '../member/pod/pod.ts'
import { systemIdentifierOf } from '../member/storage/claim.ts'
import type { VolumeFacts } from '../member/storage/persistent-volume.ts'
import type { Owner } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'
import type { ChecksumFailures } from '../postgres/administrator.ts'
import type { ConfigurationState } from '../postgres/state.ts'
import type { Drifts } from './drifts.ts'
import type { Instance } from './instance.ts'

/** Whether the installation's keys are there: nothing is done without them, and they are never made anew. */
type KeysFacts = {
  sealingKey: boolean
  authority: boolean
  /** One authority is taking the place of another: it waits for every server. */
  isChanging: boolean
}

/** The children that are this database's own; whatever else stands under their names is not here. */
export type Children = {
  credentials: Secret | undefined
  certificate: Secret | undefined
  claim: PersistentVolumeClaim | undefined
  configuration: ConfigMap | undefined
  service: Service | undefined
  networkPolicy: NetworkPolicy | undefined
  disruptionBudget: PodDisruptionBudget | undefined
  statefulSet: StatefulSet | undefined
  pod: Pod | undefined
  route: ConfigMap | undefined
}

/**
 * Everything of ours that is still there, of any incarnation: what deletion has to take away. With it what has our id
 * and belongs to no database that lives: the database it belonged to was put back, as this one.
 */
export type Remains = {
  statefulSets: StatefulSet[]
  pods: Pod[]
  services: Service[]
  networkPolicies: NetworkPolicy[]
  disruptionBudgets: PodDisruptionBudget[]
  configurations: ConfigMap[]
  claims: PersistentVolumeClaim[]
  secrets: Secret[]
  routes: ConfigMap[]
  volumes: VolumeFacts[]
}

/** The kinds of what remains, but pods, which are their StatefulSet's. */
export const kindsOfRemains = [
  { kind: 'PersistentVolumeClaim', field: 'claims' },
  { kind: 'Secret', field: 'secrets' },
  { kind: 'StatefulSet', field: 'statefulSets' },
  { kind: 'Service', field: 'services' },
  { kind: 'NetworkPolicy', field: 'networkPolicies' },
  { kind: 'PodDisruptionBudget', field: 'disruptionBudgets' },
  { kind: 'ConfigMap', field: 'configurations' },
  { kind: 'ConfigMap', field: 'routes' },
] as const satisfies { kind: KindName; field: keyof Remains }[]

/**
 * The PersistentVolumes that matter. `bound`: of the claim. `recorded`: the one that is on record, mostly the same.
 * `copy`: a second object for the storage of one that is going.
 */
export type Volumes = {
  bound: VolumeFacts | undefined
  recorded: VolumeFacts | undefined
  copy: VolumeFacts | undefined
}

/** `mark`: names its passwords (postgres/marks.ts), by which roles record which they have; `mintedAt`: RFC 3339. */
export type CredentialsFacts =
  | { state: 'absent' }
  | {
      state: 'readable'
      mark: string
      mintedAt: string
      /** The rotations that the passwords are of. */
      rotations: Rotations
      /** Whose password before the present one is still kept: it is not seen yet that Postgres has the present one. */
      previous: DatabaseRole[]
      /** Others set `immutable: true` on the Secret: its passwords cannot be replaced. */
      isImmutable?: boolean
    }
  | { state: 'unreadable'; message: string }

/** `due`: to be issued anew, for whatever reason; `issuedAt`: ms since the epoch. */
export type CertificateFacts =
  | { state: 'absent' }
  | {
      state: 'due' | 'good'
      fingerprint: string | undefined
      issuedAt: number | undefined
      /** It is on record that Postgres shows it. */
      isLoaded: boolean
      /** Many are to be issued anew, and others come first. */
      awaitsTurn?: true
    }

export type RouteFacts = {
  port: number
  route: Route | undefined
  /** Every live gateway has put it into force. */
  acknowledged: boolean
  /** Names of the gateways that are waited for; none and not acknowledged: no gateway lives. */
  waitingFor: string[]
  /** A gateway cannot listen on the port, since something else does. */
  refused: boolean
}

/** What was learnt from Postgres itself, when, and of which run of it. */
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

/** Why Postgres is not to be stopped for a suspension yet. */
export type Hold = { reason: string; message: string }

/**
 * The rotations that the owner asks for, until they are done. `isGivenUp`: their time is over, and what is not done is not
 * done any more.
 */
export type AskedRotations = { asked: Rotations; isGivenUp: boolean }

export type Observed = {
  instance: Instance
  /** Whose the children are; undefined until that is settled. */
  owner: Owner | undefined
  /** All that was asked had come into force when the status was written, and nothing else is asked since. */
  isAtRest: boolean
  /** What needs its Postgres running, as its owner knows. */
  held: Hold | undefined
  rotations: AskedRotations
  keys: KeysFacts
  region: Region | undefined
  /** Of the size that is asked for. */
  size: Size | undefined
  /** The size that the database has; before it has one, the one that is asked for. */
  inForce: { pinned: PinnedSize; size: Size | undefined }
  growthRefusal: GrowthRefusal | undefined
  /** What others keep changing on the children. */
  drifts: Drifts
  /** Gateways cannot connect to a Postgres that the operator reaches. */
  isCutOff: boolean
  /** The image that runs the database's major version; absent where the installation has none. */
  image: string | undefined
  /** What the installation says of every database's pod. */
  podSettings: PodSettings
  /** Which volume serves. */
  incarnation: number
  children: Children
  remains: Remains
  /** The claim is not marked as ours, nor as a living database's: it was another's, or lost its marks. */
  isStrayClaim: boolean
  volumes: Volumes
  /** Volumes that were retained under its id, while there is neither a claim nor a volume on record. */
  retained: VolumeFacts[]
  /** Where the volume of a copy is to be made, for a claim that is still to come; undefined: where the scheduler says. */
  copyNode: string | undefined
  /** The claim's volume is about to come, and the pod is made then. */
  volumeComesAlone: boolean
  /** What the cluster says of a claim that still waits for its volume, after a while. */
  provisioning: string | undefined
  /** Of children.pod. */
  pod: PodFacts | undefined
  /** Of a pod that terminates, or that is not heard of. */
  node: NodeFacts | undefined
  credentials: CredentialsFacts
  certificate: CertificateFacts
  route: RouteFacts | undefined
  postgres: PostgresFacts | undefined
  /** The size of its data, as last measured. */
  dataBytes: number | undefined
  /** What it takes up of its volume in bytes, as last measured: only where the volume grows by itself. */
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
