import { createHash } from 'node:crypto'

/** The SHA-256 of a token, in hexadecimal: servers and gateways know a token only by it. */
export const tokenDigest = (token: string): string => createHash('sha256').update(token).digest('hex')
