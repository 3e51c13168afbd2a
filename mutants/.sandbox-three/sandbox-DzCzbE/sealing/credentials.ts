/**
 * How secret values stand in Secrets. Passwords and tokens are sealed with AES-256-GCM under the installation's key,
 * each bound to the place it stands in, so that one cannot be passed off as another. The API and the operator open
 * them; workloads get what they need mounted.
 */
// @ts-nocheck

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** The Postgres roles of every database, in the order they are made. */
export const databaseRoles = ['admin', 'app', 'app_read_only'] as const
export type DatabaseRole = (typeof databaseRoles)[number]
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
/** The TLS Secrets in the system namespace of Espalier's own servers. */
export const systemCertificates = { api: 'espalier-api-tls', gateway: 'espalier-gateway-tls' } as const
export type SystemServer = keyof typeof systemCertificates

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

/** @throws SealError where the value was sealed by another key or for another place, or was changed since. */
export function open(key: Uint8Array, place: string, sealed: string): string {
  if (!sealed.startsWith(prefix)) throw new SealError(`the value at ${place} is not sealed`)
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
