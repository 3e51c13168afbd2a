/**
 * Encryption of values in Secrets. Passwords and tokens are encrypted with AES-256-GCM under the installation's key.
 * Each value is bound to its Secret and key, so that it cannot be used in place of another value. The API and the
 * operator decrypt the values. Workloads get the values that they need as mounted files.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** The Postgres roles of every database, in order of creation. */
export const databaseRoles = ['admin', 'app', 'app_read_only'] as const
export type DatabaseRole = (typeof databaseRoles)[number]
/** The password of each role, decrypted. */
export type Passwords = Record<DatabaseRole, string>
/**
 * The field of a credentials Secret with the role's previous password during a rotation. The previous password is valid
 * until Postgres has the new password.
 */
export const previousPassword = (role: DatabaseRole): string => `${role}.previous`
/**
 * On a credentials Secret, as JSON: for each role whose password was rotated, the rotation that created the password.
 */
const rotationsAnnotation = 'espalier.dev/rotations'

/**
 * `before`: the rotation that created the previous password, while the Secret contains both passwords; absent for the
 * first password.
 */
export type RoleRotation = { rotation?: string; before?: string }
type RoleRotations = Partial<Record<DatabaseRole, RoleRotation>>

type Annotated = { metadata: { annotations?: Record<string, string> | undefined } }

/** The rotations recorded on a credentials Secret; empty if unreadable. */
export function rotationsOf({ metadata }: Annotated): RoleRotations {
  const rotations = parsed(metadata.annotations?.[rotationsAnnotation] ?? '{}')
  const entries = databaseRoles.flatMap(role => {
    const { rotation, before } = Object(Object(rotations)[role])
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

/** The annotation for these rotations. */
export const rotationAnnotations = (rotations: RoleRotations): Record<string, string> => ({
  [rotationsAnnotation]: JSON.stringify(rotations),
})

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The only database that users connect to. */
export const applicationDatabase = 'app'

/** The Secret in the system namespace that contains the sealing key (32 bytes) under `key`. */
export const sealingKeySecret = 'espalier-sealing-key'
/** The Secret in the system namespace that contains the certificate authority: `tls.crt` and `tls.key`, PEM. */
export const authoritySecret = 'espalier-ca'
/**
 * The Secret in the system namespace with a new authority that will replace the current authority. It has the same
 * keys.
 */
export const nextAuthoritySecret = 'espalier-ca-next'
/** The Secret in the system namespace in which the operator records the authorities in use. */
export const authorityStateSecret = 'espalier-ca-state'
/** On the authority's Secret: `true` requests a new authority that replaces it. */
export const rotateAnnotation = 'espalier.dev/rotate'
/** The ConfigMap in the system namespace with the trusted authorities: `ca.crt`, with one or more PEM certificates. */
export const authorityConfigMap = 'espalier-ca'
/**
 * The TLS Secrets in the system namespace: those of Espalier's own servers, and the client certificates with which the
 * API and metrics collectors connect to the databases' agents.
 */
export const systemCertificates = {
  api: 'espalier-api-tls',
  gateway: 'espalier-gateway-tls',
  archive: 'espalier-archive-tls',
  apiClient: 'espalier-api-client',
  metricsClient: 'espalier-metrics-client',
} as const
/** The Secret with the gateway's HTTPS certificates: `<region>.crt` and `<region>.key` of each region. */
export const gatewayHttpsSecret = 'espalier-gateway-https'
export type SystemCertificate = keyof typeof systemCertificates

const prefix = 'sealed.v1.'

/**
 * Encrypts a value and binds it to one location. `location` is any text that names the location, such as
 * `<namespace>/<secret>/<key>`.
 */
export function seal(key: Uint8Array, location: string, value: string): string {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(location))
  const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
  return prefix + Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

export class SealError extends Error {
  override readonly name = 'SealError'
}

/** Whether a value has the format of an encrypted value. Only `open` verifies it. */
export const isSealed = (value: string): boolean => value.startsWith(prefix)

/** @throws SealError if the value was encrypted with another key or for another location, or was changed */
export function open(key: Uint8Array, location: string, sealed: string): string {
  if (!isSealed(sealed)) throw new SealError(`the value at ${location} is not encrypted`)
  const bytes = Buffer.from(sealed.slice(prefix.length), 'base64url')
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 })
      .setAAD(Buffer.from(location))
      .setAuthTag(bytes.subarray(12, 28))
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8')
  } catch (cause) {
    throw new SealError(`the value at ${location} cannot be decrypted with the installation's key`, { cause })
  }
}

/** The location of a value in a Secret. */
export const secretLocation = (namespace: string, secret: string, key: string): string =>
  `${namespace}/${secret}/${key}`
