/**
 * The observed state that an owner has once, however many members serve. The plan of an endpoint reads nothing else.
 */
import type { ConfigMap, NetworkPolicy, PodDisruptionBudget, Secret, Service } from '../../cluster/index.ts'
import type { Region, Rotations } from '../../crds/index.ts'
import type { Route } from '../../routes/route.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { Drifts } from '../children/drift-history.ts'
import type { PostgresFacts } from '../member/observed.ts'
import type { Instance } from '../objects/instance.ts'
import type { PodSettings } from '../pod-settings.ts'

/** The owner's own objects; an object of another owner with one of their names is not here. */
export type EndpointChildren = {
  credentials: Secret | undefined
  certificate: Secret | undefined
  service: Service | undefined
  networkPolicy: NetworkPolicy | undefined
  disruptionBudget: PodDisruptionBudget | undefined
  route: ConfigMap | undefined
}

/** `passwordVersion`: of its passwords (postgres/password-versions.ts), which roles record; `mintedAt`: RFC 3339. */
export type CredentialsFacts =
  | { state: 'absent' }
  | {
      state: 'readable'
      passwordVersion: string
      mintedAt: string
      /** The rotations in which the passwords were created. */
      rotations: Rotations
      /** Roles whose previous password is still stored: Postgres has not been observed to have the present one. */
      previous: DatabaseRole[]
      /** Another manager has set `immutable: true` on the Secret: its passwords cannot be replaced. */
      isImmutable?: boolean
    }
  | { state: 'unreadable'; message: string }

/** `due`: to be reissued, for whatever reason; `issuedAt`: ms since the epoch. */
export type CertificateFacts =
  | { state: 'absent' }
  | {
      state: 'due' | 'good'
      fingerprint: string | undefined
      issuedAt: number | undefined
      /** It is recorded that Postgres presents it. */
      isLoaded: boolean
      /** Many are being reissued, and this one waits for a slot. */
      isQueued?: true
    }

export type RouteFacts = {
  port: number
  route: Route | undefined
  /** Every live gateway has applied it. */
  acknowledged: boolean
  /** Names of the gateways that are waited for; none and not acknowledged: no gateway is alive. */
  waitingFor: string[]
  /** A gateway cannot listen on the port, since another process does. */
  refused: boolean
}

/**
 * The rotations that the owner requests, until they are done. `isGivenUp`: their deadline has passed, and unfinished
 * ones are abandoned.
 */
export type RequestedRotations = { requested: Rotations; isGivenUp: boolean }

/** Objects that the members' pods wait for: the Secrets that they mount, and the network policy. */
export type ObservedPrerequisites = Pick<
  ObservedEndpoint,
  'instance' | 'rotations' | 'children' | 'credentials' | 'certificate'
>

export type ObservedEndpoint = {
  instance: Instance
  /** The complete request had been applied when the status was written, and has not changed since. */
  isAtRest: boolean
  rotations: RequestedRotations
  region: Region | undefined
  /** Fields of the children that other managers keep changing. */
  drifts: Drifts
  /** The installation's settings for every pod. */
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
