/**
 * Region: a location for databases, with a domain, a storage class, a gateway and an object store. Its name is its
 * identifier.
 */
import { z } from 'zod'
import { conditions, timestamp } from './fields.ts'
import { declareKind, type ObjectOfKind } from './kind.ts'

export const region = declareKind({
  kind: 'Region',
  description: 'A location for databases, with a domain, a storage class and a gateway.',
  plural: 'regions',
  shortNames: ['rgn'],
  scope: 'Cluster',
  spec: z.strictObject({
    domain: z.string().min(1).max(200).describe('The domain of host names: <label>.<domain>.'),
    domainResolves: z
      .boolean()
      .optional()
      .describe(
        '`false` if clients cannot resolve names below the domain; the API then shows none. Omitted: they can.',
      ),
    storageClass: z
      .string()
      .max(253)
      .optional()
      .describe('The StorageClass of volumes. Omitted: the default class of the cluster.'),
    snapshotClass: z
      .strictObject({
        name: z.string().min(1).max(253).describe('The name of a VolumeSnapshotClass.'),
        atomic: z
          .boolean()
          .default(false)
          .describe('`true` if a snapshot contains the complete volume at one instant.'),
      })
      .optional()
      .describe(
        'How snapshots of volumes are taken. Omitted: no hot backups are taken. See the condition `SnapshotsReady`.',
      ),
    gateway: z
      .strictObject({
        host: z
          .string()
          .max(253)
          .optional()
          .describe('The host name or address that clients connect to. Omitted: the host name of the database.'),
        externalIpAddress: z
          .string()
          .max(45)
          .optional()
          .describe("The gateway's public address. The API shows it with each database."),
        ports: z
          .strictObject({
            first: z.int().min(1).max(65535).describe('The first port.'),
            last: z.int().min(1).max(65535).describe('The last port.'),
          })
          .describe('The ports of the gateway. Each database and each branch uses one.'),
        https: z
          .strictObject({
            port: z.int().min(1).max(65535).default(443).describe('The port that clients connect to.'),
            host: z
              .string()
              .min(1)
              .max(253)
              .optional()
              .describe(
                'The host name or address for clients that cannot resolve names below the domain. Omitted: `host`.',
              ),
          })
          .optional()
          .describe('How clients reach services over HTTPS. Omitted: the region has no services.'),
      })
      .describe('The gateway that clients connect through.')
      .meta({
        'x-kubernetes-validations': [
          { rule: 'self.ports.first <= self.ports.last', message: 'ports.first must not be greater than ports.last' },
        ],
      }),
    certificate: z
      .strictObject({
        secretName: z
          .string()
          .min(1)
          .max(253)
          .describe(
            'A Secret of type kubernetes.io/tls in the system namespace, with a certificate for *.<domain>. The operator finds it by its label `espalier.dev/component: gateway-certificate`.',
          ),
      })
      .optional()
      .describe(
        "The certificate for the region's services. Omitted: the operator issues one, signed by the installation's authority.",
      ),
    maintenance: z
      .strictObject({
        schedule: z
          .string()
          .max(100)
          .regex(/^[^ ]+( [^ ]+){4}$/, 'must have five fields: minute, hour, day of month, month, day of week')
          .describe('When the window opens, as a cron expression. `0 3 * * 6` is Saturdays at 3.'),
        timeZone: z
          .string()
          .min(1)
          .max(64)
          .optional()
          .describe('An IANA time zone, for example Europe/Berlin. Omitted: UTC.'),
        duration: z
          .string()
          .max(6)
          .regex(/^[1-9][0-9]{0,3}[mh]$/, 'must be minutes or hours, for example 90m or 4h')
          .describe('For how long after the opening restarts may begin, for example 90m or 4h.'),
        maxConcurrent: z.int().min(1).max(1000).default(1).describe('How many databases may restart at the same time.'),
      })
      .optional()
      .describe(
        'The maintenance window: when databases with a pending restart are restarted. Omitted: they restart only on request.',
      ),
    objectStore: z
      .strictObject({
        endpoint: z.string().max(300).describe('The URL of the object store.'),
        bucket: z.string().max(63).describe('The name of the bucket.'),
        secret: z
          .strictObject({ name: z.string().max(253).describe('The name of the Secret.') })
          .optional()
          .describe('The Secret with the access key.'),
      })
      .optional()
      .describe('Not used: durable backups are in the archive of the installation. See the condition `BackupsReady`.'),
  }),
  status: z.strictObject({
    conditions: conditions.optional(),
    domain: z
      .strictObject({
        name: z.string().max(200).describe('The domain.'),
        since: timestamp.optional().describe('When the domain last changed.'),
      })
      .optional()
      .describe('The domain that users see, and when it changed.'),
    turns: z
      .array(
        z.strictObject({
          kind: z.enum(['ManagedDatabase', 'Branch']).describe('The kind of the object.'),
          namespace: z.string().max(63).describe('The namespace of the object.'),
          name: z.string().max(253).describe('The name of the object.'),
          uid: z.string().max(64).describe('The uid of the object. An object created again needs a slot of its own.'),
          window: z.string().max(63).describe('When the maintenance window opened.'),
          grantedAt: timestamp.describe('When the slot was granted. It is valid for two minutes.'),
        }),
      )
      .max(1000)
      .optional()
      .describe(
        'The databases and branches that may restart now in the maintenance window. Each is listed until its restart has ended or its slot has expired.',
      ),
  }),
  rules: [],
  columns: [
    { name: 'Domain', type: 'string', jsonPath: '.spec.domain' },
    { name: 'StorageClass', type: 'string', jsonPath: '.spec.storageClass' },
    {
      name: 'Snapshots',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='SnapshotsReady')].reason",
      priority: 1,
    },
    {
      name: 'Maintenance',
      type: 'string',
      jsonPath: ".status.conditions[?(@.type=='Maintenance')].reason",
      priority: 1,
    },
    { name: 'FirstPort', type: 'integer', jsonPath: '.spec.gateway.ports.first', priority: 1 },
    { name: 'LastPort', type: 'integer', jsonPath: '.spec.gateway.ports.last', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
})
export type Region = ObjectOfKind<typeof region>
/** The permission to start one restart in the maintenance window. */
export type Turn = NonNullable<NonNullable<Region['status']>['turns']>[number]

const notAtomic = (snapshotClass: string): string =>
  `snapshots of class ${snapshotClass} are not declared to be of one instant (atomic: true); a snapshot of several instants can lose data, so no hot backup is taken`

/** Why no snapshot of a database can be taken in this region, according to its spec. Undefined if one can be taken. */
export function snapshotRefusal(
  name: string,
  region: Region | undefined,
): { reason: string; message: string } | undefined {
  if (region === undefined) return { reason: 'RegionMissing', message: `there is no region ${name}` }
  const { snapshotClass } = region.spec
  if (snapshotClass === undefined)
    return { reason: 'NoSnapshots', message: `region ${name} names no snapshot class: no hot backup is taken there` }
  return snapshotClass.atomic ? undefined : { reason: 'NotAtomic', message: notAtomic(snapshotClass.name) }
}
