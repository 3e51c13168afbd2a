import { createHash } from 'node:crypto'

/** The SHA-256 of a token, in hexadecimal. Servers and gateways know only this digest of a token. */
export const tokenDigest = (token: string): string => createHash('sha256').update(token).digest('hex')
