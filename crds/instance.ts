/** What the status of everything says that has a Postgres of its own, be it a database or a branch. */
import { z } from 'zod'
import { timestamp } from './fields.ts'

/** A size pinned with its version: a new version of the size never changes a database by itself. */
export const pinnedSize = z.strictObject({
  name: z.string().min(1).max(50).describe('The name of the size, for example small.'),
  version: z.int().min(1).describe('The version of the size.'),
})
export type PinnedSize = z.output<typeof pinnedSize>

/** Where clients reach a database: an address and a port of the gateway. */
const endpoint = z.strictObject({
  host: z.string().max(253).describe('The host name or address that clients connect to.'),
  port: z.int().min(1).max(65535).describe('The port of the gateway that belongs to this Postgres alone.'),
  externalIpAddress: z.string().max(45).optional().describe("The gateway's public address, if the region has one."),
})
export type Endpoint = z.output<typeof endpoint>

export const volumeRecord = z.strictObject({
  claim: z.string().max(253).describe('The name of the PersistentVolumeClaim.'),
  uid: z.string().max(64).describe('The uid of the PersistentVolumeClaim.'),
  volumeName: z
    .string()
    .max(253)
    .optional()
    .describe('The PersistentVolume. It outlives a claim that somebody deletes.'),
  systemIdentifier: z.string().max(32).describe("Postgres's own number for this cluster of data."),
})

export const instanceStatus = {
  updatedAt: timestamp.optional().describe('When anything of it that users see last changed.'),
  size: pinnedSize
    .optional()
    .describe(
      'The size in force. It differs from the one asked for until that is in force: see the condition SizeApplied.',
    ),
  incarnation: z.int().min(1).optional().describe('Which volume serves, by number. A restore brings up the next one.'),
  volume: volumeRecord
    .optional()
    .describe('The volume that holds the data, once it has been initialised. It is never initialised again.'),
  endpoint: endpoint.optional().describe('What clients connect to.'),
  domain: z.string().max(253).optional().describe('The host name. The certificate is valid for this name.'),
  instances: z
    .array(
      z.strictObject({
        id: z.string().max(253).describe('The name of the pod.'),
        role: z.enum(['primary', 'replica']).describe("What the pod's Postgres is: primary or replica."),
        node: z.string().max(253).optional().describe('The node that the pod runs on.'),
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
  storageUsedBytes: z
    .int()
    .min(0)
    .meta({ format: 'int64' })
    .optional()
    .describe('The size of the data in bytes, measured every 10 minutes or less often.'),
  pendingRestart: z
    .array(
      z.strictObject({
        reason: z.string().max(63).describe('What waits for the restart, as one CamelCase word for programs.'),
        message: z.string().max(1000).describe('What waits for the restart, for people.'),
        since: timestamp.describe('When it began to wait.'),
      }),
    )
    .max(16)
    .optional()
    .describe('What takes effect at the next restart: one that is asked for, or one in the region’s window.'),
  maintenance: z
    .strictObject({
      restart: z.string().max(63).describe('When the window opened.'),
      startedAt: timestamp.describe('When the restart began.'),
      endedAt: timestamp.optional().describe('When the restart ended.'),
      outcome: z.enum(['completed', 'failed']).optional().describe('How the restart ended: completed or failed.'),
    })
    .optional()
    .describe('The last restart in a maintenance window of the region. Without endedAt it is running.'),
}
