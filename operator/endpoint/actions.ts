/** Actions that the plan of an endpoint can request. */
import type { Secret } from '../../cluster/index.ts'
import type { Rotations } from '../../crds/index.ts'
import type { DatabaseRole } from '../../sealing/credentials.ts'
import type { ServerNames } from './certificate.ts'

export type EndpointAction =
  /** Restores the labels of a Secret. */
  | { do: 'relabel'; secret: Secret }
  | { do: 'mint-credentials' }
  /** Restores the labels of the credentials Secret, if the Secret exists without them. */
  | { do: 'find-credentials' }
  /** Creates a new password for each of these roles, and keeps the previous password. */
  | { do: 'rotate-passwords'; rotations: Rotations }
  /** Removes the previous passwords, because Postgres has the new ones. */
  | { do: 'forget-previous-passwords' }
  /** Restores the previous passwords of these roles. */
  | { do: 'take-back-passwords'; roles: readonly DatabaseRole[] }
  | { do: 'issue-certificate'; names: ServerNames }
  /** Records on the certificate's Secret that Postgres presents the certificate with this fingerprint. */
  | { do: 'note-loaded'; fingerprint: string }
  /** Reserves a free port by a closed route. Prefers the previous port, if that is free. */
  | { do: 'claim-port'; preferred: number | undefined }
  /** Releases a port that a gateway cannot listen on, to reserve another. */
  | { do: 'leave-port'; port: number; uid: string }
