/**
 * Secrets that this server makes, and how they are kept: only their SHA-256, which is enough for what has 256 random bits, and fast. What is
 * looked up by its digest tells nobody who measures time how near a guess was.
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

const secretBytes = 32

/** An API token: base64url of 32 random bytes. */
export const newApiToken = (): string => randomBytes(secretBytes).toString('base64url')

/** A session token: Base64 of 32 random bytes. */
export const newSessionToken = (): string => randomBytes(secretBytes).toString('base64')

/** SHA-256 in hex. */
export const digestOf = (secret: string): string => hash('sha256', secret, 'hex')

/** In a time that says nothing about where they differ. */
export const isSameDigest = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other))
