/**
 * How secret values stand in Secrets. Passwords and tokens are sealed with AES-256-GCM under the installation's key,
 * each bound to the place it stands in, so that one cannot be passed off as another. The API and the operator open
 * them; workloads get what they need mounted.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** The Postgres roles of every database, in the order they are made. */
export const databaseRoles = ['admin', 'app', 'app_read_only'] as const
export type DatabaseRole = (typeof databaseRoles)[number]
/** The password of each role, unsealed. */
export type Passwords = Record<DatabaseRole, string>
/**
 * In a credentials Secret, beside a role's password while that is being replaced: the one before, which is valid until
 * Postgres has the new one.
 */
export const previousPassword = (role: DatabaseRole): string => `${role}.previous`
/** On a credentials Secret, JSON: for each role whose password was replaced, the rotation that it is of. */
const rotationsAnnotation = 'espalier.dev/rotations'

/** `before`: the rotation that the password before was of, while that stands beside the new one; absent for the first password. */
export type RoleRotation = { rotation?: string; before?: string }
type RoleRotations = Partial<Record<DatabaseRole, RoleRotation>>

type Annotated = { metadata: { annotations?: Record<string, string> | undefined } }

/** What a credentials Secret says of rotations; what cannot be read says nothing. */
export function rotationsOf({ metadata }: Annotated): RoleRotations {
  const said = parsed(metadata.annotations?.[rotationsAnnotation] ?? '{}')
  const entries = databaseRoles.flatMap(role => {
    const { rotation, before } = Object(Object(said)[role])
    if (typeof rotation !== 'string' && typeof before !== 'string') return []
    return [
      [
        role,
        { ...(typeof rotation === 'string' ? { rotation } : {}), ...(typeof before === 'string' ? { before } : {}) },
      ],
    ]
  })
  return Object.fromEntries(entries)
}

/** The annotation that says so. */
export const rotationsSaid = (rotations: RoleRotations): Record<string, string> => ({
  [rotationsAnnotation]: JSON.stringify(rotations),
})

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The one database that users connect to. */
export const applicationDatabase = 'app'

/** The Secret in the system namespace that holds the sealing key (32 bytes) under `key`. */
export const sealingKeySecret = 'espalier-sealing-key'
/** The Secret in the system namespace that holds the certificate authority: `tls.crt` and `tls.key`, PEM. */
export const authoritySecret = 'espalier-ca'
/** The Secret in the system namespace by which another authority is to take its place: the same keys. */
export const nextAuthoritySecret = 'espalier-ca-next'
/** The Secret in the system namespace in which the operator keeps which authorities are in force. */
export const authorityStateSecret = 'espalier-ca-state'
/** On the authority's Secret, `true`: a new authority is to be made, and to take its place. */
export const rotateAnnotation = 'espalier.dev/rotate'
/** The ConfigMap in the system namespace that tells everybody whom to trust: `ca.crt`, one certificate or more, PEM. */
export const authorityConfigMap = 'espalier-ca'
/**
 * The TLS Secrets in the system namespace: of Espalier's own servers, and those by which the API, and whoever gathers metrics,
 * show to the agents of databases who they are.
 */
export const systemCertificates = {
  api: 'espalier-api-tls',
  gateway: 'espalier-gateway-tls',
  apiClient: 'espalier-api-client',
  metricsClient: 'espalier-metrics-client',
} as const
/** The Secret with the certificates by which the gateway serves HTTPS: `<region>.crt` and `<region>.key` of each region. */
export const gatewayHttpsSecret = 'espalier-gateway-https'
export type SystemCertificate = keyof typeof systemCertificates

const prefix = 'sealed.v1.'

/** Seals a value for one place; `place` is any text that names it, such as `<namespace>/<secret>/<key>`. */
export function seal(key: Uint8Array, place: string, value: string): string {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(place))
  const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
  return prefix + Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

export class SealError extends Error {
  override readonly name = 'SealError'
}

/** Whether a value claims to be sealed. Only `open` tells whether it is. */
export const isSealed = (value: string): boolean => value.startsWith(prefix)

/** @throws SealError where the value was sealed by another key or for another place, or was changed since. */
export function open(key: Uint8Array, place: string, sealed: string): string {
  if (!isSealed(sealed)) throw new SealError(`the value at ${place} is not sealed`)
  const bytes = Buffer.from(sealed.slice(prefix.length), 'base64url')
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 })
      .setAAD(Buffer.from(place))
      .setAuthTag(bytes.subarray(12, 28))
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8')
  } catch (cause) {
    throw new SealError(`the value at ${place} does not open with the installation's key`, { cause })
  }
}

/** The place of a value in a Secret. */
export const secretPlace = (namespace: string, secret: string, key: string): string => `${namespace}/${secret}/${key}`
