/**
 * The observed state that an owner has once, even if several members serve. The plan of an endpoint reads only this.
 */
import type { ConfigMap, NetworkPolicy, PodDisruptionBudget, Secret, Service } from '../../cluster/index.ts'
import type { Region, Rotations } from '../../crds/index.ts'
import type { Route } from '../../routes/route.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { Drifts } from '../children/drift-history.ts'
import type { PostgresFacts } from '../member/observed.ts'
import type { Instance } from '../objects/instance.ts'
import type { PodSettings } from '../pod-settings.ts'

/** The owner's own objects. An object with one of their names but another owner is not included. */
export type EndpointChildren = {
  credentials: Secret | undefined
  certificate: Secret | undefined
  service: Service | undefined
  networkPolicy: NetworkPolicy | undefined
  disruptionBudget: PodDisruptionBudget | undefined
  route: ConfigMap | undefined
}

/**
 * `passwordVersion`: the version of its passwords, which roles record (postgres/password-versions.ts). `mintedAt`: RFC
 * 3339.
 */
export type CredentialsFacts =
  | { state: 'absent' }
  | {
      state: 'readable'
      passwordVersion: string
      mintedAt: string
      /** The rotations that created the passwords. */
      rotations: Rotations
      /** Roles with a stored previous password: Postgres was not observed to have the current password yet. */
      previous: DatabaseRole[]
      /** Another manager has set `immutable: true` on the Secret, so its passwords cannot be replaced. */
      isImmutable?: boolean
    }
  | { state: 'unreadable'; message: string }

/** `due`: must be reissued, for any reason. `issuedAt`: ms since the epoch. */
export type CertificateFacts =
  | { state: 'absent' }
  | {
      state: 'due' | 'good'
      fingerprint: string | undefined
      issuedAt: number | undefined
      /** The Secret records that Postgres presents the certificate. */
      isLoaded: boolean
      /** Many certificates are being reissued, and this one waits for a slot. */
      isQueued?: true
    }

export type RouteFacts = {
  port: number
  route: Route | undefined
  /** Every running gateway has applied the route. */
  acknowledged: boolean
  /**
   * Names of the gateways that have not applied it. If this is empty and `acknowledged` is false, no gateway is
   * running.
   */
  waitingFor: string[]
  /** A gateway cannot listen on the port, because another process uses it. */
  refused: boolean
}

/**
 * The rotations that the owner requests, until they are done. `isGivenUp`: their deadline has passed, and the operator
 * reverts unfinished rotations.
 */
export type RequestedRotations = { requested: Rotations; isGivenUp: boolean }

/** Objects that the members' pods need: the Secrets that they mount, and the network policy. */
export type ObservedPrerequisites = Pick<
  ObservedEndpoint,
  'instance' | 'rotations' | 'children' | 'credentials' | 'certificate'
>

export type ObservedEndpoint = {
  instance: Instance
  /** When the status was written, the complete request had been applied. The request has not changed since then. */
  isAtRest: boolean
  rotations: RequestedRotations
  region: Region | undefined
  /** Fields of the children that other managers keep changing. */
  drifts: Drifts
  /** The installation's settings for every pod. */
  podSettings: PodSettings
  /** The incarnation that serves, or that should serve. */
  incarnation: number
  children: EndpointChildren
  credentials: CredentialsFacts
  certificate: CertificateFacts
  route: RouteFacts | undefined
  /** Facts about the serving member's Postgres. */
  postgres: PostgresFacts | undefined
}
