/**
 * Secrets that this server creates. The server stores only their SHA-256. This fast hash is sufficient for 256 random
 * bits. The time of a digest lookup reveals nothing about the secret.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

const secretBytes = 32

/** An API token: base64url of 32 random bytes. */
export const newApiToken = (): string => randomBytes(secretBytes).toString('base64url')

/** A session token: Base64 of 32 random bytes. */
export const newSessionToken = (): string => randomBytes(secretBytes).toString('base64')

/** SHA-256 in hex. */
export const digestOf = (secret: string): string => hash('sha256', secret, 'hex')

/** Compares in a time that does not depend on the position of a difference. */
export const isSameDigest = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other))
