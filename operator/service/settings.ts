/** What an installation configures about the services of databases. */
import { z } from 'zod'
import type { PgVersion } from '../../crds/index.ts'
import type { NodeCount, Nodes } from './nodes.ts'

const quantity = z
  .string()
  .max(32)
  .regex(/^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$/, 'must be a quantity, for example 250m or 256Mi')

const resources = (cpu: string, memory: string, limit: string) =>
  z
    .strictObject({
      requests: z
        .strictObject({ cpu: quantity.default(cpu), memory: quantity.default(memory) })
        .prefault({})
        .describe('what the scheduler reserves'),
      limits: z
        .strictObject({ cpu: quantity.optional(), memory: quantity.default(limit) })
        .prefault({})
        .describe('what a container may use at most'),
    })
    .prefault({})

const replicas = z.union([z.literal(1), z.literal(2), z.literal('auto')]).default('auto')

const cidr = z.union([z.cidrv4(), z.cidrv6()])
const block = z.strictObject({ cidr, except: z.array(cidr).max(32).optional() })

/** Everywhere but where the pods, nodes and metadata services of a cluster are. */
const publicAddresses: z.input<typeof block>[] = [
  {
    cidr: '0.0.0.0/0',
    except: [
      '0.0.0.0/8',
      '10.0.0.0/8',
      '100.64.0.0/10',
      '127.0.0.0/8',
      '169.254.0.0/16',
      '172.16.0.0/12',
      '192.168.0.0/16',
    ],
  },
  { cidr: '::/0', except: ['::1/128', 'fc00::/7', 'fe80::/10'] },
]

const url = z.url({ protocol: /^https?$/ }).max(300)

export const serviceSettings = z.strictObject({
  resources: z
    .strictObject({
      // At 256Mi both containers were killed for their memory with two clients that call a tool over and over.
      mcp: resources('10m', '128Mi', '640Mi'),
      rest: resources('10m', '96Mi', '256Mi'),
      rag: resources('10m', '96Mi', '256Mi'),
    })
    .prefault({})
    .describe('of each container of a service'),
  replicas: z
    .strictObject({ mcp: replicas, rest: replicas, rag: replicas })
    .prefault({})
    .describe('how many pods a service has. "auto" is 2 where pods can run on two nodes or more, else 1'),
  baseUrls: z
    .strictObject({ anthropic: url.optional(), openai: url.optional(), voyage: url.optional() })
    .prefault({})
    .describe('where a provider of models is, if not at its public address'),
  trustedProxies: z
    .array(z.union([cidr, z.ipv4(), z.ipv6()]))
    .max(32)
    .default(['0.0.0.0/0', '::/0'])
    .describe('whose X-Forwarded-For services believe; network policies let only the gateway reach them'),
  settleMs: z
    .int()
    .min(0)
    .max(3600_000)
    .default(10_000)
    .describe('how long a workload stays after another has taken its place, until gateways and nodes have noticed'),
  egress: z
    .array(block)
    .max(32)
    .default(publicAddresses)
    .describe('where the providers of models may be; services that use one reach these at TCP port 443'),
})
export type ServiceInstallationSettings = z.output<typeof serviceSettings>

/** What the services of every owner run with. `image`: undefined where the installation runs no services. */
export type ServiceInstallation = {
  image: string | undefined
  settings: ServiceInstallationSettings
  /** On how many nodes pods can run, where that decides something. */
  nodes: Nodes
}

/** What that is read from. */
export type ServiceOptions = Omit<ServiceInstallation, 'nodes'> & { nodes: NodeCount }

/** Whether the image of a version has pgvector. */
export type HasPgvector = (version: PgVersion) => boolean | Promise<boolean>
