/**
 * What an operator can be configured with, each setting with its default. A file is parsed by `operatorConfiguration`
 * once; from there on everything works with `OperatorConfiguration`.
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
      .describe('for each major version on offer the image that holds it, and `espalier instance` beside it'),
    services: image.optional().describe('the image that services of databases run with; omitted: none runs'),
  }),
  pgvectorVersions: z
    .array(z.enum(pgVersions))
    .default([])
    .describe('the major versions whose image has pgvector, for conditions that name them'),
  pods: podSettings.prefault({}).describe("what every database's pod is given"),
  services: serviceSettings.prefault({}).describe('what the services of databases are given'),
  rightsByNamespace: z
    .boolean()
    .default(false)
    .describe('true where operator and API have their rights only in namespaces that the operator binds them in'),
  watchesAllSecrets: z
    .boolean()
    .default(false)
    .describe('true where the operator may list and watch the Secrets of all namespaces even so: one watch for all'),
  leaderElection: z.boolean().default(true).describe('false where this is the only operator there can be'),
  http: z
    .strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535).describe('0 takes a free one') })
    .optional()
    .describe('where /healthz, /readyz and /metrics are served'),
  certificates: z
    .strictObject({
      api: names.optional().describe('what the API answers to; omitted: its certificate comes from elsewhere'),
      gateway: names.optional().describe('what the gateway answers to; omitted: its certificate comes from elsewhere'),
      metricsClient: z
        .boolean()
        .optional()
        .describe('whether there is one by which metrics may be gathered from the agents of databases'),
    })
    .optional()
    .describe(
      "keeps the certificates of Espalier's own servers and clients fresh and publishes the authority; omitted: none of it is done",
    ),
  authority: z
    .strictObject({
      announceMs: z
        .int()
        .min(0)
        .max(90 * 86_400_000)
        .default(7 * 86_400_000)
        .describe('how long clients are told of a new certificate authority before it signs'),
      settleMs: z.int().min(0).max(3600_000).default(180_000).describe('how long each further step takes at least'),
      lookMs: z
        .int()
        .min(1)
        .max(60_000)
        .default(10_000)
        .describe('how often it is looked whether servers have come on'),
    })
    .prefault({})
    .describe('the pace at which one certificate authority takes the place of another'),
  deadlines: z
    .strictObject({
      creatingMs: minutes(10),
      modifyingMs: minutes(10),
      restoringMs: minutes(60),
      deletingMs: minutes(30),
    })
    .prefault({})
    .describe('how long an operation may take before it is said to have failed; it is gone on with all the same'),
  backups: z
    .strictObject({
      schedules: z.boolean().default(true).describe('false: no backup is taken but those that are asked for'),
      spreadMs: z
        .int()
        .min(0)
        .max(24 * 3600_000)
        .default(3600_000)
        .describe('over how long nightly backups of all databases, and missed ones, are spread'),
      servingMs: minutes(10).describe('the database does not serve'),
      checkpointMs: minutes(15).describe('Postgres writes what it holds to its files'),
      errorMs: minutes(0.5).describe('the storage says that it cannot'),
      cutMs: minutes(10).describe('the snapshot is not cut'),
      verificationMs: minutes(30).describe('a copy is not checked, beside 1 s for each 5 MB of it'),
      readyMs: minutes(6 * 60).describe('the snapshot is cut, and the storage copies it'),
    })
    .prefault({})
    .describe(
      'backups: when they are taken by themselves, and how long each step may stand still before one has failed',
    ),
  branches: z
    .strictObject({ highestDepth: branchDepth })
    .prefault({})
    .describe('branches; the API is to have the same'),
  workers: z.int().min(1).max(256).default(16).describe('databases worked on at once'),
  certificatesAtOnce: z
    .int()
    .min(1)
    .max(1000)
    .default(50)
    .describe('databases that have their certificates issued anew, and load them, at once'),
})
export type OperatorConfiguration = z.output<typeof operatorConfiguration>
