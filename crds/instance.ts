/** What the status of everything says that has a Postgres of its own, be it a database or a branch. */
import { z } from 'zod'
import { timestamp } from './fields.ts'

/** A size pinned with its version: a new version of the size never changes a database by itself. */
export const pinnedSize = z.strictObject({
  name: z.string().min(1).max(50),
  version: z.int().min(1),
})
export type PinnedSize = z.output<typeof pinnedSize>

/** Where clients reach a database: an address and a port of the gateway. */
const endpoint = z.strictObject({
  host: z.string().max(253),
  port: z.int().min(1).max(65535),
  externalIpAddress: z.string().max(45).optional(),
})
export type Endpoint = z.output<typeof endpoint>

export const instanceStatus = {
  updatedAt: timestamp.optional().describe('When anything of it that users see last changed.'),
  size: pinnedSize
    .optional()
    .describe(
      'The size in force. It differs from the one asked for until that is in force: see the condition SizeApplied.',
    ),
  incarnation: z.int().min(1).optional().describe('Which volume serves, by number. A restore brings up the next one.'),
  volume: z
    .strictObject({
      claim: z.string().max(253),
      uid: z.string().max(64),
      volumeName: z
        .string()
        .max(253)
        .optional()
        .describe('The PersistentVolume. It outlives a claim that somebody deletes.'),
      systemIdentifier: z.string().max(32).describe("Postgres's own number for this cluster of data."),
    })
    .optional()
    .describe('The volume that holds the data, once it has been initialised. It is never initialised again.'),
  endpoint: endpoint.optional().describe('What clients connect to.'),
  domain: z.string().max(253).optional().describe('The host name. The certificate is valid for this name.'),
  instances: z
    .array(
      z.strictObject({
        id: z.string().max(253),
        role: z.enum(['primary', 'replica']),
        node: z.string().max(253).optional(),
      }),
    )
    .max(16)
    .optional()
    .describe('The pods that run Postgres.'),
  storage: z
    .strictObject({
      capacity: z.string().max(32).describe('What the volume has.'),
      since: timestamp.describe('When it was first seen to have that.'),
      growsTo: z.string().max(32).optional().describe('What it grows to by itself, while it does.'),
    })
    .optional()
    .describe('The volume, where it grows by itself.'),
  storageUsedBytes: z.int().min(0).meta({ format: 'int64' }).optional(),
  pendingRestart: z
    .array(
      z.strictObject({
        reason: z.string().max(63),
        message: z.string().max(1000),
        since: timestamp,
      }),
    )
    .max(16)
    .optional()
    .describe('What takes effect at the next restart: one that is asked for, or one in the region’s window.'),
  maintenance: z
    .strictObject({
      restart: z.string().max(63).describe('When the window opened.'),
      startedAt: timestamp,
      endedAt: timestamp.optional(),
      outcome: z.enum(['completed', 'failed']).optional(),
    })
    .optional()
    .describe('The last restart in a maintenance window of the region. Without endedAt it is running.'),
}
