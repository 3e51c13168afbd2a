/**
 * The operator's configuration, and each setting's default. `operatorConfiguration` parses a file once. All other code
 * uses `OperatorConfiguration`.
 */
import { z } from 'zod'
import { branchDepth, pgVersions } from '../crds/index.ts'
import { podSettings } from './pod-settings.ts'
import { serviceSettings } from './service/settings.ts'

const image = z.string().min(1).max(500)
const minutes = (count: number) =>
  z
    .int()
    .min(1_000)
    .max(24 * 3600_000)
    .default(count * 60_000)

const names = z.strictObject({
  dnsNames: z.array(z.string().min(1).max(253)).max(50).default([]),
  ipAddresses: z
    .array(z.union([z.ipv4(), z.ipv6()]))
    .max(50)
    .default([]),
})

export const operatorConfiguration = z.strictObject({
  images: z.strictObject({
    postgres: z
      .partialRecord(z.enum(pgVersions), image)
      .refine(images => Object.keys(images).length > 0, 'must name an image for at least one version')
      .describe('for each offered major version the image that contains it and `espalier instance`'),
    services: image.optional().describe("the image for databases' services; omitted: services do not run"),
  }),
  pgvectorVersions: z
    .array(z.enum(pgVersions))
    .default([])
    .describe('the major versions whose image has pgvector, for conditions that name them'),
  pods: podSettings.prefault({}).describe("settings of every database's pod"),
  services: serviceSettings.prefault({}).describe("settings of databases' services"),
  rightsByNamespace: z
    .boolean()
    .default(false)
    .describe('true if operator and API have their rights only in namespaces where the operator binds them'),
  watchesAllSecrets: z
    .boolean()
    .default(false)
    .describe('true if the operator may nevertheless list and watch the Secrets of all namespaces: one watch for all'),
  leaderElection: z.boolean().default(true).describe('false if there can be only one operator'),
  http: z
    .strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535).describe('0: a free port') })
    .optional()
    .describe('where /healthz, /readyz and /metrics are served'),
  certificates: z
    .strictObject({
      api: names
        .optional()
        .describe("the names in the API's certificate; omitted: it has a certificate from elsewhere"),
      gateway: names
        .optional()
        .describe("the names in the gateway's certificate; omitted: it has a certificate from elsewhere"),
      archive: names.optional().describe("the names in the archive's certificate; omitted: there is no archive"),
      metricsClient: z
        .boolean()
        .optional()
        .describe("whether there is a certificate for collecting metrics from databases' agents"),
    })
    .optional()
    .describe(
      "issues and renews the certificates of Espalier's own servers and clients and publishes the authority; omitted: does neither",
    ),
  authority: z
    .strictObject({
      announceMs: z
        .int()
        .min(0)
        .max(90 * 86_400_000)
        .default(7 * 86_400_000)
        .describe('how long a new certificate authority is announced to clients before it signs'),
      settleMs: z.int().min(0).max(3600_000).default(180_000).describe('the minimum time of each further step'),
      lookMs: z.int().min(1).max(60_000).default(10_000).describe('how often servers are checked'),
    })
    .prefault({})
    .describe('the times of replacing one certificate authority by another'),
  deadlines: z
    .strictObject({
      creatingMs: minutes(10),
      modifyingMs: minutes(10),
      restoringMs: minutes(60),
      deletingMs: minutes(30),
    })
    .prefault({})
    .describe('how long an operation may take before it is reported as failed; the operator still continues it'),
  imports: z
    .strictObject({
      from: z
        .array(z.union([z.cidrv4(), z.cidrv6()]))
        .max(64)
        .default([])
        .describe(
          'address ranges that sources of imports may have besides public ones, such as those of a private network',
        ),
      jobs: z
        .int()
        .min(1)
        .max(16)
        .default(4)
        .describe('how many tables an import copies, and indexes it builds, at once'),
      stallMs: minutes(15).describe('an attempt without progress for this time ends, and the next begins'),
    })
    .prefault({})
    .describe('imports of new databases from other servers'),
  backups: z
    .strictObject({
      schedules: z.boolean().default(true).describe('false: only requested backups are taken'),
      spreadMs: z
        .int()
        .min(0)
        .max(24 * 3600_000)
        .default(3600_000)
        .describe('the time over which nightly backups of all databases, and missed ones, are spread'),
      servingMs: minutes(10).describe('the database does not serve'),
      checkpointMs: minutes(15).describe('Postgres makes a checkpoint'),
      errorMs: minutes(0.5).describe('the storage reports an error'),
      cutMs: minutes(10).describe("the snapshot's time is not set"),
      verificationMs: minutes(30).describe('a copy is not checked, plus 1 s for each 5 MB of it'),
      durableStallMs: minutes(15).describe('the agent makes no progress in copying a durable backup'),
      durableMs: minutes(24 * 60).describe(
        'the agent lost the job of a durable backup again, for example by a restart',
      ),
      readyMs: minutes(6 * 60).describe('the snapshot is taken, and the storage copies it'),
    })
    .prefault({})
    .describe(
      'backups: when scheduled ones are taken, and how long each step may make no progress before the backup has failed',
    ),
  archiving: z
    .strictObject({
      lookMs: z.int().min(10).max(60_000).default(20_000).describe('how often agents are queried about archiving'),
    })
    .prefault({})
    .describe('databases with the durable tier'),
  branches: z
    .strictObject({ highestDepth: branchDepth })
    .prefault({})
    .describe('branches; the API must have the same value'),
  workers: z.int().min(1).max(256).default(16).describe('databases reconciled at once'),
  certificatesAtOnce: z
    .int()
    .min(1)
    .max(1000)
    .default(50)
    .describe('databases whose certificates are reissued and loaded at once'),
})
export type OperatorConfiguration = z.output<typeof operatorConfiguration>
