/** What a pass knows of what an owner has once, however many members serve behind it. The plan of an endpoint reads nothing else. */
import type { ConfigMap, NetworkPolicy, PodDisruptionBudget, Secret, Service } from '../../cluster/index.ts'
import type { Region, Rotations } from '../../crds/index.ts'
import type { Route } from '../../routes/route.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { Drifts } from '../children/drift-history.ts'
import type { PostgresFacts } from '../member/observed.ts'
import type { Instance } from '../objects/instance.ts'
import type { PodSettings } from '../pod-settings.ts'

/** The objects that are the owner's own; an object of another owner under one of their names is not here. */
export type EndpointChildren = {
  credentials: Secret | undefined
  certificate: Secret | undefined
  service: Service | undefined
  networkPolicy: NetworkPolicy | undefined
  disruptionBudget: PodDisruptionBudget | undefined
  route: ConfigMap | undefined
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
      /** Many are issued anew, and this one waits for a slot. */
      isQueued?: true
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

/**
 * The rotations that the owner asks for, until they are done. `isGivenUp`: their time is over, and what is not done is not
 * done any more.
 */
export type RequestedRotations = { asked: Rotations; isGivenUp: boolean }

/** What the pods of members wait for: the Secrets that they mount, and the network policy. */
export type ObservedPrerequisites = Pick<
  ObservedEndpoint,
  'instance' | 'rotations' | 'children' | 'credentials' | 'certificate'
>

export type ObservedEndpoint = {
  instance: Instance
  /** All that was requested had been applied when the status was written, and nothing else is requested since. */
  isAtRest: boolean
  rotations: RequestedRotations
  region: Region | undefined
  /** What others keep changing on the children. */
  drifts: Drifts
  /** What the installation says of every pod. */
  podSettings: PodSettings
  /** The incarnation that serves, or is to serve. */
  incarnation: number
  children: EndpointChildren
  credentials: CredentialsFacts
  certificate: CertificateFacts
  route: RouteFacts | undefined
  /** Of the member that serves. */
  postgres: PostgresFacts | undefined
}
