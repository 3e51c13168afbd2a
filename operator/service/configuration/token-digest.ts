import { createHash } from 'node:crypto'

/** The SHA-256 of a token, in hexadecimal: what servers and gateways know it by. */
export const tokenDigest = (token: string): string => createHash('sha256').update(token).digest('hex')
