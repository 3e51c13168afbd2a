/** The status fields of objects that have their own Postgres: databases and branches. */
import { z } from 'zod'
import { timestamp } from './fields.ts'

/** A size pinned to a version: a new version of the size never changes a database automatically. */
export const pinnedSize = z.strictObject({
  name: z.string().min(1).max(50).describe('The name of the size, for example small.'),
  version: z.int().min(1).describe('The version of the size.'),
})
export type PinnedSize = z.output<typeof pinnedSize>

/** The address and gateway port that clients connect to. */
const endpoint = z.strictObject({
  host: z.string().max(253).describe('The host name or address that clients connect to.'),
  port: z.int().min(1).max(65535).describe('The port of the gateway that is reserved for this Postgres.'),
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
    .describe('The name of the PersistentVolume. It remains when a user deletes the claim.'),
  systemIdentifier: z.string().max(32).describe('The Postgres system identifier of the data.'),
})

export const instanceStatus = {
  updatedAt: timestamp.optional().describe('When a field that users see last changed.'),
  size: pinnedSize
    .optional()
    .describe(
      'The applied size. It differs from the requested one until the operator has applied that: see the condition SizeApplied.',
    ),
  incarnation: z
    .int()
    .min(1)
    .optional()
    .describe('The number of the volume that serves. A restore creates the next one.'),
  volume: volumeRecord
    .optional()
    .describe('The volume that contains the data, set once it is initialised. It is never initialised again.'),
  endpoint: endpoint.optional().describe('The address that clients connect to.'),
  domain: z.string().max(253).optional().describe('The host name. The certificate is valid for this name.'),
  instances: z
    .array(
      z.strictObject({
        id: z.string().max(253).describe('The name of the pod.'),
        role: z.enum(['primary', 'replica']).describe("The role of the pod's Postgres: primary or replica."),
        node: z.string().max(253).optional().describe('The node that the pod runs on.'),
      }),
    )
    .max(16)
    .optional()
    .describe('The pods that run Postgres.'),
  storage: z
    .strictObject({
      capacity: z.string().max(32).describe('The capacity of the volume.'),
      since: timestamp.describe('When this capacity was first observed.'),
      growsTo: z.string().max(32).optional().describe('The capacity that the volume is growing to automatically.'),
    })
    .optional()
    .describe('The volume, if it grows automatically.'),
  storageUsedBytes: z
    .int()
    .min(0)
    .meta({ format: 'int64' })
    .optional()
    .describe('The size of the data in bytes, measured at most every 10 minutes.'),
  pendingRestart: z
    .array(
      z.strictObject({
        reason: z.string().max(63).describe('What waits for the restart, as one CamelCase word for programs.'),
        message: z.string().max(1000).describe('What waits for the restart, as text for users.'),
        since: timestamp.describe('Since when it waits.'),
      }),
    )
    .max(16)
    .optional()
    .describe(
      "What takes effect at the next restart, either a requested one or one in the region's maintenance window.",
    ),
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
