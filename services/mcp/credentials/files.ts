/**
 * Entries of token and user files, and the callers that these entries authenticate. `hash` and `password_hash` are the
 * only stored form of a secret.
 */
import { z } from 'zod'
import { isPasswordHash } from '../../authentication/password.ts'
import type { Form } from './document.ts'
import { time } from './document.ts'

const note = z.string().max(1_000)
const databaseName = z.string().min(1).max(255)

const tokenEntry = z.strictObject({
  hash: z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in 64 small hex digits'),
  /** null: the token never expires. */
  expires_at: time.nullable().default(null),
  annotation: note.optional(),
  created_at: time.optional(),
  /** The only database that the token may use; undefined: all. */
  database: databaseName.optional(),
})
export type TokenEntry = z.output<typeof tokenEntry>

const userEntry = z.strictObject({
  password_hash: z.string().refine(isPasswordHash, 'must be an scrypt hash, made by espalier mcp -add-user'),
  enabled: z.boolean().default(true),
  failed_attempts: z.int().min(0).default(0),
  annotation: note.optional(),
  created_at: time.optional(),
  last_login: time.nullable().optional(),
  /** undefined: all databases. */
  available_databases: z.array(databaseName).max(1_000).optional(),
})
export type UserEntry = z.output<typeof userEntry>

export const tokenForm: Form<TokenEntry> = {
  table: 'tokens',
  entry: tokenEntry,
  name: /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/,
  nameRule: 'must be 1 to 128 letters, digits, dots, hyphens and underscores, and begin with a letter or digit',
}

export const userForm: Form<UserEntry> = {
  table: 'users',
  entry: userEntry,
  name: /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$/,
  nameRule: 'must be 1 to 128 letters, digits and . _ @ + -, and begin with a letter or digit',
}

export const isExpired = ({ expires_at }: TokenEntry, now: number): boolean =>
  expires_at !== null && Date.parse(expires_at) <= now
