/**
 * Fields that several resources or API types share. Each field is defined once, with its type, its limits and its error
 * messages. Patterns are restricted to RE2 (no look-around), because the API server compiles them, too.
 */

import { z } from 'zod'
import { ipv4CidrPattern } from '../values/cidr.ts'

/**
 * User text with a maximum length in code points, like in the API server. JavaScript (and zod's `max`) counts UTF-16
 * units. An unpaired surrogate is refused, because an API server would replace it.
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
  label: text(64).optional().describe('The purpose of the rule, at most 64 characters.'),
})

const allowlistRules = z
  .array(allowlistRule)
  .max(50)
  .describe('The rules, at most 50. An empty list closes the endpoint.')

/** The rules of one endpoint. Endpoints do not inherit rules. */
export const ipAllowlist = z
  .strictObject({ rules: allowlistRules })
  .describe('The addresses that may connect to this endpoint.')
export type IpAllowlist = z.output<typeof ipAllowlist>

const databaseNamePattern = /^[a-z][a-z0-9]{0,49}$/
export const databaseName = z
  .string()
  .regex(
    databaseNamePattern,
    'must begin with a lower-case letter and contain at most 50 lower-case letters and digits',
  )

export const displayName = text(25).describe('A display name, at most 25 characters.')

export const option = text(64, 1)
export const options = z
  .array(option)
  .max(32)
  .describe('Strings that the user chooses: at most 32, each at most 64 characters. They have no effect.')

/** Supported Postgres major versions, newest first. The first is the default. */
export const pgVersions = ['18', '17', '16'] as const
export const pgVersion = z.enum(pgVersions)
export type PgVersion = z.output<typeof pgVersion>
export const defaultPgVersion: PgVersion = pgVersions[0]

/** A Kubernetes resource quantity in the supported forms: plain, milli, or with a binary or decimal suffix. */
export const quantity = z
  .string()
  .max(32)
  .regex(/^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/, 'must be a resource quantity, for example 500m, 2 or 10Gi')

export const uuid = z
  .string()
  .regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/, 'must be a UUID: an id, not a name')

export const timestamp = z.iso.datetime({ offset: true })

/** In the format of `kubectl get`. */
export const duration = z.string().max(32)

/** A reference to a Secret in the resource's own namespace. Specs never contain a secret. */
export const secretReference = z
  .strictObject({ name: z.string().min(1).max(253).describe('The name of the Secret.') })
  .describe('A Secret in the same namespace.')

export const observedGeneration = z.int().min(0).describe('The metadata.generation that the operator last reconciled.')

/** One aspect of an object's state, like a Kubernetes condition: `reason` is CamelCase, `message` is text for users. */
export const condition = z.strictObject({
  type: z.string().min(1).max(316).describe('The type of the condition, for example Ready.'),
  status: z.enum(['True', 'False', 'Unknown']).describe('True, False or Unknown.'),
  reason: z.string().min(1).max(1024).describe('The cause of the status, as one CamelCase word for programs.'),
  message: z.string().max(32768).describe('The cause of the status, as text for users.'),
  observedGeneration: observedGeneration.optional(),
  lastTransitionTime: timestamp.describe('When the status last changed.'),
})
export type Condition = z.output<typeof condition>

export const conditions = z
  .array(condition)
  .max(32)
  .describe('The observed state, one condition for each type.')
  .meta({
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  })

/** The database of an object that is not its child. The name is for users, and the id decides. */
export const ofDatabase = {
  databaseName: z.string().max(63).describe('The name of the ManagedDatabase, in the same namespace.'),
  databaseId: z
    .string()
    .max(36)
    .default('')
    .describe(
      'The id of the ManagedDatabase: its label espalier.dev/id. Omitted: the operator sets it once, from the name.',
    ),
}

/** The status of an operation that runs once. */
export const runStatus = {
  phase: z
    .enum(['pending', 'running', 'completed', 'failed'])
    .optional()
    .describe('The state of the run. After completed or failed it does not change.'),
  observedGeneration: observedGeneration.optional(),
  conditions: conditions.optional(),
  startedAt: timestamp.optional().describe('When the operator started it.'),
  finishedAt: timestamp.optional().describe('When it completed or failed.'),
  duration: duration.optional().describe('The time from startedAt to finishedAt, for example 8s.'),
}

/** The branch of an object. The name is for users, and the id decides. */
export const sourceBranch = z.strictObject({
  name: z.string().min(1).max(253).describe('The name of the Branch, in the same namespace.'),
  id: z.string().min(1).max(36).describe('The id of the Branch: its label espalier.dev/id.'),
})
