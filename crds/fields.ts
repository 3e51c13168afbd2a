/**
 * The fields that more than one resource or API shape is made of, each defined once: its type, its limits and the
 * words of its errors. Patterns keep to RE2 (no look-around), since the API server compiles them too.
 */

import { z } from 'zod'
import { ipv4CidrPattern } from '../values/cidr.ts'

/**
 * Text of a user's, at most so many characters, counted as the API server counts them: by code point, where JavaScript
 * (and zod's `max`) counts UTF-16 units. Half a character is refused, since an API server would put another in its place.
 */
export const text = (maximum: number, minimum = 0) =>
  z
    .string()
    .refine(value => value.isWellFormed(), 'must be well-formed Unicode')
    .refine(value => value.length <= 2 * maximum && [...value].length <= maximum, {
      error: `must be at most ${maximum} characters long`,
    })
    .refine(value => value.length >= minimum, {
      error: `must be at least ${minimum} ${minimum === 1 ? 'character' : 'characters'} long`,
    })
    .meta({ ...(minimum > 0 ? { minLength: minimum } : {}), maxLength: maximum })

export const ipv4Cidr = z
  .string()
  .max(18)
  .regex(ipv4CidrPattern, 'must be an IPv4 address or CIDR block, for example 203.0.113.7 or 203.0.113.0/24')
  .describe('An IPv4 address or CIDR block. IPv6 is refused, since ingress is IPv4 only.')

export const allowlistRule = z.strictObject({
  cidr: ipv4Cidr,
  label: text(64).optional().describe('What the rule is for, at most 64 characters.'),
})

const allowlistRules = z
  .array(allowlistRule)
  .max(50)
  .describe('The rules, at most 50. An empty list closes the endpoint.')

/** The rules of one endpoint. Every endpoint keeps its own; none inherits. */
export const ipAllowlist = z.strictObject({ rules: allowlistRules })
export type IpAllowlist = z.output<typeof ipAllowlist>

const databaseNamePattern = /^[a-z][a-z0-9]{0,49}$/
export const databaseName = z
  .string()
  .regex(databaseNamePattern, 'must begin with a lower-case letter and hold at most 50 lower-case letters and digits')

export const displayName = text(25).describe('A name for people, at most 25 characters.')

export const option = text(64, 1)
export const options = z
  .array(option)
  .max(32)
  .describe('Strings of your own, at most 32 of at most 64 characters. They change nothing.')

/** Postgres majors on offer, newest first. The first is the default. */
export const pgVersions = ['18', '17', '16'] as const
export const pgVersion = z.enum(pgVersions)
export type PgVersion = z.output<typeof pgVersion>
export const defaultPgVersion: PgVersion = pgVersions[0]

/** A Kubernetes resource quantity of the forms we use: plain, milli, or with a binary or decimal suffix. */
export const quantity = z
  .string()
  .max(32)
  .regex(/^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/, 'must be a resource quantity, for example 500m, 2 or 10Gi')

export const uuid = z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, 'must be a UUID')

export const timestamp = z.iso.datetime({ offset: true })

/** A reference to one Secret in the resource's own namespace; specs never hold a secret itself. */
export const secretReference = z.strictObject({ name: z.string().min(1).max(253) })

/** One aspect of an object's state, as Kubernetes conditions are: `reason` in CamelCase, `message` for people. */
export const condition = z.strictObject({
  type: z.string().min(1).max(316),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().min(1).max(1024),
  message: z.string().max(32768),
  observedGeneration: z.int().min(0).optional(),
  lastTransitionTime: timestamp,
})
export type Condition = z.output<typeof condition>

export const conditions = z
  .array(condition)
  .max(32)
  .meta({
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  })

/** Which database something is of that is no child of it: by name for people, by id for good. */
export const ofDatabase = { databaseName: z.string().max(63), databaseId: z.string().max(36) }

/** The status of what runs once, from its beginning to its end. */
export const runStatus = {
  phase: z.enum(['pending', 'running', 'completed', 'failed']).optional(),
  observedGeneration: z.int().min(0).optional(),
  conditions: conditions.optional(),
  startedAt: timestamp.optional(),
  finishedAt: timestamp.optional(),
}

/** A branch that something is of, by name for people, by id for good. */
export const sourceBranch = z.strictObject({ name: z.string().min(1).max(253), id: z.string().min(1).max(36) })
